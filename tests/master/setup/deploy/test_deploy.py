"""`muster deploy`: what is written fits the lab, holds no secret, and never replaces what somebody changed."""

from __future__ import annotations

import errno
import json
import os
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from master.command_line import main
from master.config.config import load_config
from master.setup.deploy import concerns, plan, quoting
from master.setup.deploy.machine import Mount, look, parse_mounts
from tests.faults import fault_in, part, refused, refusing, wrong
from tests.master.setup.deploy.deploy_lab import (
    GOLDEN,
    INFLUX,
    LOCAL,
    NODES,
    PORTS,
    SECRET,
    golden_texts,
    lab_at,
    machine,
    texts,
    write_lab,
)
from wire.errors import ConflictError
from wire.message import Message

SCHEMA = Path(__file__).parents[3] / "data" / "compose" / "compose-spec.json"
MASTER = "systemd/system/muster.service"
NFS = Mount(Path("/mnt/store"), "nfs4", "192.168.36.130:/pool/store")


def deploy(conf: Path, where: Path, **keys: Any) -> dict[str, str]:
    said = plan.deploy(load_config(conf), where, machine=machine(), **keys)
    return {file["path"]: file["state"] for file in said["files"]}


def one_node(**keys: Any) -> list[dict[str, Any]]:
    return [{**NODES[0], **keys}]


def options_of(unit: str, key: str) -> list[str]:
    return [line.partition("=")[2] for line in unit.splitlines() if line.startswith(f"{key}=")]


# -- the whole ----------------------------------------------------------------------------------------------------


def test_the_files_of_a_lab_with_odd_names_are_the_golden_ones(tmp_path: Path) -> None:
    golden = {
        str(path.relative_to(GOLDEN)): path.read_text(encoding="utf-8") for path in GOLDEN.rglob("*") if path.is_file()
    }
    written = golden_texts(tmp_path)
    assert sorted(written) == sorted(golden)
    for name, text in written.items():
        assert text == golden[name], name


def test_no_secret_is_in_any_file(tmp_path: Path) -> None:
    """The token, the password of a proxy and the password of the nodes are all the same word here."""
    conf = write_lab(tmp_path)
    assert SECRET in conf.read_text(encoding="utf-8")
    deploy(conf, tmp_path / "setup")
    told = [path for path in (tmp_path / "setup").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert told == []


def test_a_password_in_the_url_is_refused_rather_than_copied(tmp_path: Path) -> None:
    conf = write_lab(tmp_path, influx={"url": f"http://u:{SECRET}@127.0.0.1:8086"})
    fault = fault_in(conf, lambda: deploy(conf, tmp_path / "setup"))
    assert fault == Message("influx_url_for_deploy")
    assert SECRET not in str(fault)


def test_a_lab_of_this_machine_alone_needs_no_nfs_and_is_told_so(tmp_path: Path) -> None:
    written = texts(lab_at(write_lab(tmp_path, nodes=LOCAL, influx=None)))
    assert [name for name in written if name.startswith(("nfs/", "nodes/", "monitoring/"))] == []
    assert "Not needed: every node of the registry is this machine (driver `local`)" in written["README.md"]
    assert "nfs-kernel-server" not in written["README.md"]
    assert "conf.json has no `influx`" in written["README.md"]


def test_a_node_that_is_this_machine_by_another_name_mounts_nothing(tmp_path: Path) -> None:
    nodes = [{**NODES[0], "ip": ip, "name": ip} for ip in ("127.0.0.1", "localhost", "boss", "192.168.36.10")]
    assert lab_at(write_lab(tmp_path, nodes=nodes)).remotes == ()


def test_who_follows_the_steps_in_one_shell_stays_in_their_folder_and_submits_from_one_that_nodes_have(
    tmp_path: Path,
) -> None:
    lab = lab_at(write_lab(tmp_path))
    lines = [
        shlex.split(line, comments=True) for line in texts(lab)["README.md"].splitlines() if line[:3] in ("cd ", "mus")
    ]
    folder = Path()
    for words in lines:
        folder = folder / words[1] if words[0] == "cd" else folder
    assert os.path.normpath(folder) == "."
    tasks = [words for words in lines if words[:2] == ["muster", "run"]]
    shared = {str(one.path) for one in lab.exported}
    assert len(tasks) == len(NODES)
    assert all(words[words.index("--cwd") + 1] in shared for words in tasks)


def test_nodes_that_are_one_machine_are_exported_to_once(tmp_path: Path) -> None:
    written = texts(lab_at(write_lab(tmp_path, nodes=[NODES[0], {**NODES[0], "name": "again"}])))
    lines = [line for line in written["nfs/muster.exports"].splitlines() if line.startswith("/")]
    assert [line.count("192.168.36.130") for line in lines] == [1] * 5
    assert [name for name in written if name.endswith(".fstab")] == ["nodes/Slaver 1.fstab"]


def test_a_long_name_of_a_node_still_makes_a_file(tmp_path: Path) -> None:
    name = "\U0001f680" * 64
    deploy(write_lab(tmp_path, nodes=[{**NODES[0], "name": name}]), tmp_path / "setup")
    (fstab,) = (tmp_path / "setup" / "nodes").glob("*.fstab")
    assert name in fstab.read_text(encoding="utf-8")


@pytest.mark.parametrize("folder", ["a\\b", "tab\there", "blank /in", "line\nend"])
def test_a_folder_that_no_file_could_name_is_refused(tmp_path: Path, folder: str) -> None:
    conf = write_lab(tmp_path, visible_folders=[folder])
    fault = fault_in(conf, lambda: lab_at(conf))
    assert (fault.key, fault.args["key"]) == ("path_for_units", f"visible_folders ({folder!r})")
    assert str(fault.args["found"]).endswith(f"/{folder}")


@pytest.mark.parametrize("ip", ["*", "10.0.0.0/8", "@group", "fe80::1%eth0", "host(rw)"])
def test_an_address_that_exports_would_read_as_more_than_one_machine_is_refused(tmp_path: Path, ip: str) -> None:
    conf = write_lab(tmp_path, nodes=one_node(ip=ip))
    said = wrong("Slaver 1.ip", expected=Message("address_for_exports"))
    fault = refused(lambda: lab_at(conf)).args["fault"]
    assert isinstance(fault, Message)
    assert part(fault, said) == said


# -- NFS ----------------------------------------------------------------------------------------------------------


def test_what_the_master_has_from_nfs_itself_is_mounted_from_there_and_not_exported(tmp_path: Path) -> None:
    nfs = Mount(tmp_path, "nfs4", "nas:/pool/lab")
    written = texts(lab_at(write_lab(tmp_path), machine(nfs)))
    assert "nfs/muster.exports" not in written
    assert f"nas:/pool/lab {tmp_path} nfs4 rw,hard," in written["nodes/Slaver 1.fstab"]
    assert f"ExecStartPre=:/usr/bin/mountpoint -q {tmp_path}\n" in written["systemd/user/muster.service"]
    assert "sudo apt-get install chrony nfs-common samba\n" in written["README.md"]


def test_a_node_that_is_the_nfs_server_does_not_mount_its_own_disk(tmp_path: Path) -> None:
    nfs = Mount(tmp_path, "nfs4", "192.168.36.130:/pool/lab")
    written = texts(lab_at(write_lab(tmp_path), machine(nfs)))
    assert " nfs4 " not in written["nodes/Slaver 1.fstab"]
    assert "192.168.36.130:/pool/lab is a folder of this machine" in written["nodes/Slaver 1.fstab"]
    assert " nfs4 " in written["nodes/节点二.fstab"]


def test_a_folder_on_another_kind_of_network_disk_is_told_and_not_exported(tmp_path: Path) -> None:
    lab = lab_at(write_lab(tmp_path), machine(Mount(tmp_path, "ceph", "10.0.0.5:/")))
    assert "nfs/muster.exports" not in texts(lab)
    assert any(
        "lies on ceph (10.0.0.5:/): mount it on the nodes as it is here" in text for text in concerns.warnings(lab)
    )


def test_links_are_followed_here_and_keep_their_path_there(tmp_path: Path) -> None:
    (tmp_path / "big disk").mkdir()
    conf = write_lab(tmp_path, visible_folders=["link"], train_log_path="link/logs", conda="link/conda")
    (conf.parent / "link").symlink_to(tmp_path / "big disk")
    written = texts(lab_at(conf))
    assert f"{tmp_path}/big\\040disk 192.168.36.130(" in written["nfs/muster.exports"]
    expected = f"192.168.36.10:{tmp_path}/big\\040disk {tmp_path}/mas\\040ter\\040100%/link nfs4 "
    assert expected in written["nodes/Slaver 1.fstab"]


def test_roots_of_nodes_may_write_only_where_tasks_run_as_root(tmp_path: Path) -> None:
    nodes = [*one_node(user_name="root"), NODES[1]]
    exports = texts(lab_at(write_lab(tmp_path, nodes=nodes)))["nfs/muster.exports"]
    assert "192.168.36.130(rw,sync,no_subtree_check,no_root_squash)" in exports
    assert "fd00::12(rw,sync,no_subtree_check,root_squash)" in exports


def test_file_systems_beneath_and_without_identity_are_exported_so_that_they_work(tmp_path: Path) -> None:
    conf = write_lab(tmp_path)
    beneath = Mount(conf.parent / "envs" / "fast", "ext4", "/dev/sdb1")
    exports = texts(lab_at(conf, machine(Mount(tmp_path, "overlay", "overlay"), beneath)))["nfs/muster.exports"]
    lines = [line for line in exports.splitlines() if line.startswith("/")]
    assert all("fsid=" in line for line in lines)
    assert [line.split()[0].rpartition("/")[2] for line in lines if "crossmnt" in line] == ["envs"]
    assert len({line.partition("fsid=")[2].split(",")[0] for line in lines}) == len(lines)


def test_the_logs_and_a_conda_that_lie_in_no_visible_folder_are_shared_as_well(tmp_path: Path) -> None:
    conf = write_lab(tmp_path, visible_folders=["实验 数据"], train_log_path="logs")
    assert [one.path.name for one in lab_at(conf).exported] == ["实验 数据", "logs", "miniconda3"]


@pytest.mark.parametrize(
    ("bind", "towards", "server"),
    [
        ("0.0.0.0", {}, "boss"),  # noqa: S104  (nothing listens)
        ("127.0.0.1", {}, "boss"),
        ("10.1.1.1", {}, "10.1.1.1"),
        ("boss.lab", {}, "boss.lab"),
        ("10.1.1.1", {"192.168.36.130": "192.168.36.10"}, "192.168.36.10"),
    ],
)
def test_nodes_mount_from_the_address_of_the_master_that_they_see(
    tmp_path: Path, bind: str, towards: dict[str, str], server: str
) -> None:
    lab = lab_at(write_lab(tmp_path, nodes=one_node(), bind=bind), machine(towards=towards.get))
    assert lab.remotes[0].server == server


def test_folders_that_nfs_could_not_pass_are_opened_for_passing(tmp_path: Path) -> None:
    conf = write_lab(tmp_path)
    barred = {tmp_path, tmp_path / "elsewhere"}
    written = texts(lab_at(conf, machine(closed=barred.__contains__)))["README.md"]
    assert f"\nsudo chmod o+x {tmp_path}\n" in written
    assert str(tmp_path / "elsewhere") not in written
    assert "chmod o+x" not in texts(lab_at(conf))["README.md"]
    (tmp_path / "shut").mkdir(mode=0o750)
    assert look(()).closed(tmp_path / "shut")
    assert not look(()).closed(Path("/"))
    assert not look(()).closed(tmp_path / "not there")


def test_mountinfo_is_read_with_its_escapes_and_the_last_mount_on_a_point_counts() -> None:
    text = (
        "27 1 254:0 / / rw - ext4 /dev/vda rw\n"
        "40 27 0:5 / /mnt/store rw shared:1 - autofs systemd-1 rw\n"
        "41 27 0:50 / /mnt/store rw shared:1 - nfs4 192.168.36.130:/pool/store rw,vers=4.2\n"
        "42 27 0:51 / /mnt/my\\040disk rw - cifs //nas/a\\040b rw\n"
    )
    mounts = parse_mounts(text)
    assert mounts[1:] == (NFS, Mount(Path("/mnt/my disk"), "cifs", "//nas/a b"))
    here = machine()._replace(mounts=mounts)
    assert here.mount_of(Path("/mnt/store/data/x")) == NFS
    assert here.mount_of(Path("/mnt/storeroom")).kind == "ext4"


# -- units --------------------------------------------------------------------------------------------------------


def test_a_restart_of_the_service_leaves_tasks_alone_in_every_unit_of_the_master(tmp_path: Path) -> None:
    for nodes in (LOCAL, NODES):
        written = texts(lab_at(write_lab(tmp_path, nodes=nodes)))
        for name in (MASTER, "systemd/user/muster.service"):
            unit = written[name]
            assert options_of(unit, "KillMode") == ["process"]
            assert options_of(unit, "OOMPolicy") == ["continue"]
            assert options_of(unit, "Restart") == ["on-failure"]


def test_nothing_is_forbidden_to_tasks_of_local_nodes(tmp_path: Path) -> None:
    hardened = texts(lab_at(write_lab(tmp_path)))[MASTER]
    assert options_of(hardened, "NoNewPrivileges") == ["yes"]
    for nodes in (LOCAL, [*NODES, *LOCAL]):
        unit = texts(lab_at(write_lab(tmp_path, nodes=nodes)))[MASTER]
        found = [
            line for line in unit.splitlines() if line.startswith(("Private", "Protect", "Restrict", "NoNew", "Cap"))
        ]
        assert found == []
        assert options_of(unit, "LimitMEMLOCK") == ["infinity"]


def test_a_service_that_works_in_etc_or_tmp_is_not_locked_out_of_it(tmp_path: Path, monkeypatch: Any) -> None:
    conf = write_lab(tmp_path)
    monkeypatch.setattr("master.setup.deploy.units._READ_ONLY", (tmp_path,))
    unit = texts(lab_at(conf))[MASTER]
    assert f"'-{conf.parent}'".replace("%", "%%") in options_of(unit, "ReadWritePaths")[0]
    monkeypatch.setattr("master.setup.deploy.units._TEMPORARY", (tmp_path,))
    assert options_of(texts(lab_at(conf))[MASTER], "PrivateTmp") == []
    monkeypatch.setattr("master.setup.deploy.units._TEMPORARY", ())
    assert options_of(texts(lab_at(conf))[MASTER], "PrivateTmp") == ["yes"]


def test_ports_below_1024_get_the_one_right_that_they_need(tmp_path: Path) -> None:
    unit = texts(lab_at(write_lab(tmp_path, socket_info={**PORTS, "data_port": 900})))[MASTER]
    assert options_of(unit, "CapabilityBoundingSet") == ["CAP_NET_BIND_SERVICE"]
    assert options_of(unit, "AmbientCapabilities") == ["CAP_NET_BIND_SERVICE"]


def test_a_master_of_root_keeps_what_it_needs_and_is_warned_about(tmp_path: Path) -> None:
    lab = lab_at(write_lab(tmp_path), machine(user="root", uid=0))
    assert options_of(texts(lab)[MASTER], "CapabilityBoundingSet")[0].startswith("CAP_DAC_OVERRIDE ")
    assert concerns.warnings(lab)[0].startswith("The master belongs to root")


@pytest.mark.master
def test_the_account_is_that_of_the_queues_whoever_runs_deploy(tmp_path: Path) -> None:
    here = look((tmp_path / "not there", tmp_path))
    assert here.uid == tmp_path.stat().st_uid
    assert (here.code / "master" / "setup").is_dir()
    assert (here.grafana / "dashboards").is_dir()
    assert here.towards("127.0.0.1") == "127.0.0.1"


# -- Samba --------------------------------------------------------------------------------------------------------


def test_shares_have_names_that_windows_takes_and_tells_apart() -> None:
    taken: set[str] = set()
    folders = ["data", "Data", "a/b", "[x]", "homes", "a" * 200, "...", "数据"]
    names = [quoting.share_name(folder, taken) for folder in folders]
    assert names == ["data", "Data-2", "a-b", "x", "homes-folder", "a" * 77, "folder", "数据"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"log_group": "logs"}, "`sudo usermod -aG logs ACCOUNT`"),
        ({}, "`log_group` in conf.json"),
        ({"privacy": "own"}, None),
        ({"log_group": "logs", "desktop_client": {"networks": ["127.0.0.0/8"]}}, None),
    ],
)
def test_how_the_account_of_the_pcs_may_read_logs_is_told(
    tmp_path: Path, keys: dict[str, Any], told: str | None
) -> None:
    lab = lab_at(write_lab(tmp_path, **keys))
    found = [text for text in concerns.warnings(lab) if "log in over SSH" in text]
    assert [told is not None and told in text for text in found] == ([] if told is None else [True])


@pytest.mark.parametrize(("networks", "closed"), [(["127.0.0.0/8"], True), (["127.0.0.0/8", "10.0.0.0/8"], False)])
def test_drives_that_no_pc_may_reach_are_told(tmp_path: Path, networks: list[str], closed: bool) -> None:  # noqa: FBT001
    lab = lab_at(write_lab(tmp_path, desktop_client={"networks": networks}))
    assert any("closed to every PC" in text for text in concerns.warnings(lab)) == closed


# -- InfluxDB and Grafana -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "influx",
    [INFLUX, {**INFLUX, "version": 1, "token": "user:secret"}, {"url": "http://localhost:8086", "version": 1}],
    ids=["2", "1 with a password", "1 without"],
)
def test_the_compose_file_is_one_and_means_what_conf_json_says(tmp_path: Path, influx: dict[str, Any]) -> None:
    where = tmp_path / "setup"
    deploy(write_lab(tmp_path, influx=influx), where)
    compose = yaml.safe_load((where / "monitoring" / "compose.yaml").read_text(encoding="utf-8"))
    schema = json.loads(SCHEMA.read_bytes())
    jsonschema.Draft202012Validator(schema).validate(compose)
    services, version = compose["services"], influx.get("version", 2)
    assert services["influxdb"]["image"].startswith(f"influxdb:{version}.")
    assert services["influxdb"]["ports"][0]["host_ip"] == (
        "192.168.36.10" if "lab" in influx.get("org", "") else "127.0.0.1"
    )
    for volume in services["grafana"]["volumes"]:
        if volume.startswith("./"):
            assert (where / "monitoring" / volume.split(":")[0]).exists(), volume
    kept = services["influxdb"]["environment"].get("DOCKER_INFLUXDB_INIT_RETENTION")
    if version == 1:
        assert services["influxdb"]["configs"][0]["target"] == "/docker-entrypoint-initdb.d/retention.iql"
        kept = compose["configs"]["retention"]["content"].rpartition(" ")[2]
    assert kept == "52w", "without an end, the disk of InfluxDB fills"
    asked = json.dumps(compose).replace("$$", "").split("${")[1:]
    names = {word.partition(":")[0] for word in asked} | {compose["secrets"]["influx"]["environment"]}
    template = (where / "monitoring" / "env.example").read_text(encoding="utf-8")
    assert names == {line.partition("=")[0] for line in template.splitlines() if "=" in line and line[0] != "#"}


def test_a_console_has_a_unit_of_its_own_that_may_listen_where_it_is_to(tmp_path: Path) -> None:
    for port, may in ((8443, False), (443, True)):
        folder = tmp_path / str(port)
        folder.mkdir()
        written = texts(lab_at(write_lab(folder, web={"port": port})))
        unit = written["systemd/system/muster-web.service"]
        assert "-m web --conf" in unit
        assert "After=network-online.target" in unit
        assert ("AmbientCapabilities=CAP_NET_BIND_SERVICE" in unit) == may
        assert "enable --now muster.service muster-monitor.service muster-web.service" in written["README.md"]
        assert "-m web --conf" in written["systemd/user/muster-web.service"]


def test_what_influxdb_2_will_ask_for_and_conf_json_does_not_say_is_told(tmp_path: Path) -> None:
    for influx, told in ((INFLUX, False), ({"url": "http://127.0.0.1:8086"}, True)):
        texts = concerns.warnings(lab_at(write_lab(tmp_path, influx=influx)))
        assert any("lacks `org` or `token`" in text for text in texts) == told


@pytest.mark.parametrize(
    ("influx", "command"),
    [
        ({**INFLUX, "token": "file:influx token"}, """echo "$MUSTER_INFLUX_SECRET" >'{folder}/influx token')"""),
        (
            {**INFLUX, "version": 1, "token": "file:/etc/influx"},
            'echo "$MUSTER_INFLUX_USER:$MUSTER_INFLUX_SECRET" >/etc/influx)',
        ),
        (INFLUX, None),
    ],
    ids=["2", "1", "no file"],
)
def test_the_file_that_the_writer_reads_its_token_from_is_filled_by_a_step(
    tmp_path: Path, influx: dict[str, Any], command: str | None
) -> None:
    conf = write_lab(tmp_path, influx=influx)
    found = [line for line in texts(lab_at(conf))["README.md"].splitlines() if "umask 077" in line]
    expected = [] if command is None else [f"(umask 077; . ./.env; {command.format(folder=conf.parent)}"]
    assert found == expected


def test_influxdb_1_takes_more_tasks_than_it_would_by_itself(tmp_path: Path) -> None:
    for version in (1, 2):
        conf = write_lab(tmp_path, influx={"url": "http://localhost:8086", "version": version})
        environment = yaml.safe_load(texts(lab_at(conf))["monitoring/compose.yaml"])["services"]["influxdb"][
            "environment"
        ]
        assert environment.get("INFLUXDB_DATA_MAX_VALUES_PER_TAG") == ("0" if version == 1 else None)


def test_the_schema_refuses_what_is_no_compose_file() -> None:
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_bytes()))
    assert not validator.is_valid({"services": {"influxdb": {"image": "influxdb", "port": [8086]}}})


def test_our_dashboards_go_along_and_the_template_of_secrets_is_closed(tmp_path: Path) -> None:
    where = tmp_path / "setup"
    deploy(write_lab(tmp_path), where)
    source = machine().grafana
    copied = where / "monitoring" / "grafana" / "dashboards" / "muster-cluster.json"
    assert copied.read_bytes() == (source / "dashboards" / "muster-cluster.json").read_bytes()
    assert (where / "monitoring" / "env.example").stat().st_mode & 0o777 == 0o600
    assert not (where / "monitoring" / ".env").exists()


# -- the folder ---------------------------------------------------------------------------------------------------


def test_a_second_time_nothing_changes_and_a_change_of_the_lab_renews_what_it_concerns(tmp_path: Path) -> None:
    where = tmp_path / "setup"
    assert set(deploy(write_lab(tmp_path), where).values()) == {"written"}
    assert set(deploy(write_lab(tmp_path), where).values()) == {"same"}
    states = deploy(write_lab(tmp_path, nodes=NODES[:1]), where)
    assert states["nodes/节点二.fstab"] == "removed"
    assert not (where / "nodes" / "节点二.fstab").exists()
    assert (states["nfs/muster.exports"], states["samba/smb.conf"]) == ("written", "same")


def test_what_somebody_changed_is_kept_and_told_until_it_is_forced(tmp_path: Path) -> None:
    where = tmp_path / "setup"
    deploy(write_lab(tmp_path), where)
    ours = (where / MASTER).read_bytes()
    (where / MASTER).write_text("mine", encoding="utf-8")
    (where / "nodes" / "节点二.fstab").write_text("mine too", encoding="utf-8")
    for _ in range(2):
        states = deploy(write_lab(tmp_path, nodes=NODES[:1], bind="0.0.0.0"), where)  # noqa: S104
        assert {path for path, state in states.items() if state == "kept"} == {MASTER, "nodes/节点二.fstab"}
        assert (where / MASTER).read_text(encoding="utf-8") == "mine"
        assert (where / "nodes" / "节点二.fstab").read_text(encoding="utf-8") == "mine too"
    assert deploy(write_lab(tmp_path), where, force=True)[MASTER] == "written"
    assert (where / MASTER).read_bytes() == ours


def test_a_file_that_was_there_before_is_not_ours_to_write_over(tmp_path: Path) -> None:
    where = tmp_path / "setup"
    where.mkdir()
    (where / "README.md").write_text("my notes", encoding="utf-8")
    assert deploy(write_lab(tmp_path), where)["README.md"] == "kept"
    assert (where / "README.md").read_text(encoding="utf-8") == "my notes"


@pytest.mark.parametrize("link", ["systemd", "samba/smb.conf"])
def test_nothing_is_written_through_a_link(tmp_path: Path, link: str) -> None:
    where, outside = tmp_path / "setup", tmp_path / "outside"
    outside.mkdir()
    (where / link).parent.mkdir(parents=True)
    (where / link).symlink_to(outside)
    conf = write_lab(tmp_path)
    said = Message("link_in_the_way", path=str(where / link))
    assert refused(lambda: deploy(conf, where, force=True)) == said
    assert list(outside.iterdir()) == []


def test_a_list_of_digests_that_names_other_files_removes_none_of_them(tmp_path: Path) -> None:
    where, other = tmp_path / "setup", tmp_path / "other"
    deploy(write_lab(tmp_path), where)
    other.write_bytes(b"")
    digest = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    listed = json.loads((where / ".muster-deploy.json").read_bytes())
    text = json.dumps({**listed, "../other": digest, str(other): digest})
    (where / ".muster-deploy.json").write_text(text, encoding="utf-8")
    deploy(write_lab(tmp_path), where)
    assert other.exists()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    conf, where = write_lab(tmp_path), tmp_path / "file" / "setup"
    said = Message("file_unwritable", detail=os.strerror(errno.ENOTDIR))
    assert fault_in(where, lambda: deploy(conf, where)) == said


def test_the_command_lists_the_files_and_fails_when_some_were_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    conf, where = write_lab(tmp_path, nodes=LOCAL), tmp_path / "setup"
    words = ["--conf", str(conf), "deploy", str(where), "--json"]
    assert main(words) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["dir"] == str(where)
    assert {"path": MASTER, "state": "written", "goes_to": "/etc/systemd/system/muster.service"} in said["files"]
    assert all((where / file["path"]).is_file() for file in said["files"])
    (where / MASTER).write_text("mine", encoding="utf-8")
    assert main(words) == 1
    told = capsys.readouterr()
    assert [file["path"] for file in json.loads(told.out)["files"] if file["state"] == "kept"] == [MASTER]
    assert told.err == f"error: conflict: {Message('changed_files_kept', folder=str(where), files=(MASTER,))}\n"
    assert main([*words[:-1], "--force"]) == 0
    assert f"written  {MASTER}\n" in capsys.readouterr().out


def test_kept_files_are_a_conflict() -> None:
    plan.check_kept({"dir": "/x", "files": [{"path": "a", "state": "same"}]})
    with refusing(ConflictError, "changed_files_kept", folder="/x", files=("a",)):
        plan.check_kept({"dir": "/x", "files": [{"path": "a", "state": "kept"}]})
