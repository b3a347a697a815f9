"""What `muster deploy` writes, given to the programs that read it: systemd, findmnt, exportfs, smbd, an NFS server.

Everything of theirs (state, ports, mounts) is the test's own; nothing of this machine's is touched. They run as root.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from master.setup.deploy import nfs as nfs_files
from master.setup.deploy import steps
from tests import rights
from tests.master.setup.deploy.deploy_lab import LOCAL, NODES, lab_at, machine, write_lab
from tests.ports import free_ports
from tests.testbed import accounts
from tests.waiting import until

ACCOUNT = "games"
"""An account that every Debian and Ubuntu has, other than root: the lab is its."""
PASSWORD = "only-for-the-test"  # noqa: S105
LOOPBACK = "127.0.0.1"
PROGRAMS = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def run(*words: str, **keys: str) -> str:
    """Run a program; gives what it prints, both streams. Fails with it where the program does."""
    environment = {**os.environ, "PATH": PROGRAMS, "LC_ALL": "C.UTF-8", **keys}
    done = subprocess.run(
        words, env=environment, stdin=subprocess.DEVNULL, stdout=-1, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}"
    return done.stdout


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that other accounts may enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="muster-deploy-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def lab(place: Path) -> Path:
    """conf.json of the lab with odd names; it is `ACCOUNT`'s, who may come this far."""
    return make(place)


def make(place: Path, **keys: Any) -> Path:
    rights.need_users()
    conf = write_lab(place, **keys)
    for name in json.loads(conf.read_bytes())["visible_folders"]:
        (conf.parent / name).mkdir(exist_ok=True)
    for path in [conf.parent, *conf.parent.rglob("*")]:
        shutil.chown(path, ACCOUNT)
    return conf


def deploy(conf: Path) -> Path:
    """As people do; gives the folder."""
    where = conf.parent.parent / "setup"
    run(sys.executable, "-m", "muster", "--conf", str(conf), "deploy", str(where))
    return where


@contextmanager
def server(*words: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A server in the foreground, ended with all that it has started."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            words, env={**os.environ, "PATH": PROGRAMS}, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


# -- systemd ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nodes", [NODES, LOCAL], ids=["nodes elsewhere", "local nodes"])
def test_systemd_takes_the_units_without_a_word(place: Path, nodes: list[dict[str, Any]]) -> None:
    where = deploy(make(place, nodes=nodes))
    runtime = place / "runtime"
    runtime.mkdir(mode=0o700)
    for kind in ("system", "user"):
        units = sorted(str(path) for path in (where / "systemd" / kind).glob("*.service"))
        assert len(units) == 2
        said = run("systemd-analyze", "verify", f"--{kind}", "--man=no", *units, XDG_RUNTIME_DIR=str(runtime))
        assert said == ""


def test_systemd_reads_paths_with_blanks_quotes_and_percents_as_they_are(lab: Path) -> None:
    unit = deploy(lab) / "systemd" / "system" / "muster.service"
    dump = run("systemd-analyze", "verify", "--man=no", str(unit), SYSTEMD_LOG_LEVEL="debug")
    mounts = set(re.findall(r"RequiresMountsFor: (.*) \(", dump))
    wanted = [lab.parent, lab.parent / "task_info"]
    wanted += [lab.parent / name for name in json.loads(lab.read_bytes())["visible_folders"]]
    assert {str(path) for path in wanted} <= mounts
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    assert f'Command Line: {python} -m master --conf "{lab}"' in dump


# -- NFS ----------------------------------------------------------------------------------------------------------


def test_findmnt_finds_no_fault_in_the_lines_for_fstab_and_reads_the_paths_as_they_are(lab: Path) -> None:
    folders = [lab.parent / name for name in json.loads(lab.read_bytes())["visible_folders"]]
    fstabs = list((deploy(lab) / "nodes").glob("*.fstab"))
    assert len(fstabs) == 3
    for fstab in fstabs:
        said = run("findmnt", "--verify", "--tab-file", str(fstab))
        assert "0 parse errors, 0 errors" in said or "no errors" in said, said
        read = json.loads(run("findmnt", "--tab-file", str(fstab), "--json", "--output", "TARGET,SOURCE"))
        assert [Path(line["target"]) for line in read["filesystems"]] == folders
        assert [Path(line["source"].partition(":/")[2]) for line in read["filesystems"]] == [
            folder.relative_to("/") for folder in folders
        ]


def test_exportfs_reads_the_exports_as_they_are_meant(place: Path) -> None:
    """In a mount namespace of its own, so that this machine's exports stay what they are."""
    conf = make(place, nodes=NODES[:2])
    exports = deploy(conf) / "nfs" / "muster.exports"
    said = run(
        "unshare", "--mount", "sh", "-euc",
        'mount -t tmpfs none /var/lib/nfs; : >/var/lib/nfs/etab; mount --bind "$1" /etc/exports; exportfs -ra;'
        " cat /var/lib/nfs/etab",
        "sh", str(exports),
    )  # fmt: skip
    found = {}
    for line in said.splitlines():
        path, _, client = line.partition("\t")
        decoded = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), path)
        found[decoded, client.partition("(")[0]] = client.partition("(")[2].rstrip(")").split(",")
    folders = [str(conf.parent / name) for name in json.loads(conf.read_bytes())["visible_folders"]]
    assert set(found) == {(folder, node["ip"]) for folder in folders for node in NODES[:2]}
    for options in found.values():
        assert {"rw", "sync", "root_squash", "no_subtree_check"} <= set(options)


def ganesha_conf(exports: Path, folder: Path, port: int) -> str:
    """The same exports for an NFS server that needs no kernel: each line a block."""
    text = (
        f"NFS_CORE_PARAM {{ NFS_Port = {port}; Bind_addr = {LOOPBACK}; Protocols = 4; Enable_NLM = false;"
        " Enable_RQUOTA = false; Enable_UDP = false; }\n"
        "NFS_KRB5 { Active_krb5 = false; }\n"
        f'NFSV4 {{ Graceless = true; RecoveryBackend = fs; RecoveryRoot = "{folder}"; Only_Numeric_Owners = true; }}\n'
    )
    lines = [line for line in exports.read_text(encoding="utf-8").replace("\\\n", "").splitlines() if line[0] == "/"]
    for number, line in enumerate(lines, 1):
        path, *clients = line.split()
        path = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), path)
        text += (
            f"EXPORT {{ Export_Id = {number}; Path = '{path}'; Pseudo = '{path}'; Protocols = 4; Transports = TCP;"
            " Access_Type = NONE; SecType = sys; FSAL { Name = VFS; }"
        )
        for client in clients:
            address, _, options = client.rstrip(")").partition("(")
            words = options.split(",")
            squash = next(word for word in words if word.endswith("root_squash"))
            access = "RW" if "rw" in words else "RO"
            text += f" CLIENT {{ Clients = {address}; Access_Type = {access}; Squash = {squash}; }}"
        text += " }\n"
    return text


def nfs_server(place: Path, conf: Path, port: int) -> list[str]:
    rights.need_real_root()  # it opens files by handle
    folder = place / "ganesha"
    folder.mkdir()
    text = ganesha_conf(deploy(conf) / "nfs" / "muster.exports", folder, port)
    (folder / "ganesha.conf").write_text(text, encoding="utf-8")
    files = ("-f", f"{folder}/ganesha.conf", "-L", f"{folder}/log", "-p", f"{folder}/pid")
    return ["ganesha.nfsd", "-F", *files, "-N", "NIV_EVENT"]


def nfs(path: Path, port: int, uid: int = 0) -> str:
    return f"nfs://{LOOPBACK}{path}?nfsport={port}&version=4&uid={uid}&gid=60"


def can(*words: str) -> bool:
    return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode == 0


def test_a_node_reads_and_writes_over_nfs_as_its_account_and_not_as_root(place: Path) -> None:
    """The registry's address of the node is rewritten to this machine's, which the lab itself would leave out."""
    conf = make(place, nodes=NODES[:1], visible_folders=["实验 数据", "envs"])
    folder, (port,), uid = conf.parent / "实验 数据", free_ports(1), conf.stat().st_uid
    command = nfs_server(place, conf, port)
    config = place / "ganesha" / "ganesha.conf"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace(NODES[0]["ip"], LOOPBACK), encoding="utf-8")
    (place / "sent").write_text("3 epochs", encoding="utf-8")
    with server(*command, log=place / "out"):
        until("the NFS server serves", lambda: can("nfs-ls", nfs(folder, port)))
        run("nfs-cp", str(place / "sent"), nfs(folder / "结果.txt", port, uid))
        assert (folder / "结果.txt").read_text(encoding="utf-8") == "3 epochs"
        assert (folder / "结果.txt").stat().st_uid == uid
        assert "结果.txt" in run("nfs-ls", nfs(folder, port))
        assert not can("nfs-cp", str(place / "sent"), nfs(folder / "by root", port))
        assert not (folder / "by root").exists()


def test_a_machine_that_is_no_node_gets_nothing_over_nfs(place: Path) -> None:
    conf = make(place, nodes=NODES[:1], visible_folders=["实验 数据", "envs"])
    folder, (port,) = conf.parent / "实验 数据", free_ports(1)
    command = nfs_server(place, conf, port)
    log = place / "ganesha" / "log"
    with server(*command, log=place / "out"):
        until("the NFS server serves", lambda: log.exists() and "NFS SERVER INITIALIZED" in log.read_text())
        assert not can("nfs-ls", nfs(folder, port))


def test_the_script_for_nodes_puts_its_lines_into_fstab_once_and_makes_the_mount_points(lab: Path, place: Path) -> None:
    """In a mount namespace with a copy of /etc; `mount` is none, since this kernel may know no NFS."""
    nodes = deploy(lab) / "nodes"
    programs, etc, root = place / "programs", place / "etc", lab.parent
    programs.mkdir()
    for name in ("mount", "findmnt", "mount.nfs4", "systemctl"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{place}/called\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    shutil.copytree("/etc", etc, symlinks=True, ignore=accounts.not_to_copy)
    (etc / "fstab").write_text("/dev/sda1 / ext4 defaults 0 1\n", encoding="utf-8")
    shutil.rmtree(root)
    script = [str(nodes / "mount.sh"), str(nodes / "节点二.fstab")]
    inside = (
        "unshare", "--mount", "sh", "-euc", 'mount --bind "$1" /etc; PATH="$2:$PATH"; shift 2; exec sh "$@"',
        "sh", str(etc), str(programs),
    )  # fmt: skip
    for account in ("", ACCOUNT):
        run(*inside, *script, *([account] if account else []))
    lines = (etc / "fstab").read_text(encoding="utf-8")
    (etc / "fstab").write_text(lines.replace("# END muster\n", "/dev/sdb1 /data ext4 defaults 0 2\n"), encoding="utf-8")
    half = (etc / "fstab").read_bytes()
    with pytest.raises(AssertionError, match="what is ours cannot be told from the rest"):
        run(*inside, *script)
    assert (etc / "fstab").read_bytes() == half
    fstab = (nodes / "节点二.fstab").read_text(encoding="utf-8")
    assert lines == f"/dev/sda1 / ext4 defaults 0 1\n# BEGIN muster\n{fstab}# END muster\n"
    assert sorted(path.name for path in root.iterdir()) == sorted(
        ["实验 数据", "envs", 'data #1 "raw"', "50%Umsatz", "it's"]
    )
    assert "mount --all --types nfs,nfs4\n" in (place / "called").read_text(encoding="utf-8")
    with pytest.raises(AssertionError, match=r"the number of root is 0 here and \d+ on") as told:
        run("sh", *script, "root")
    assert "usermod" not in str(told.value)


def test_no_account_of_a_node_is_told_to_become_root_where_the_master_runs_as_root(place: Path) -> None:
    rights.need_root()
    script = place / "mount.sh"
    script.write_text(nfs_files.mount_script(lab_at(write_lab(place), machine(user="root", uid=0))), encoding="utf-8")
    lines = place / "a.fstab"
    lines.write_text("", encoding="utf-8")
    with pytest.raises(AssertionError, match="the folders belong to root: games ") as told:
        run("sh", str(script), str(lines), ACCOUNT)
    assert "usermod" not in str(told.value)
    assert "usermod" not in script.read_text(encoding="utf-8")


@pytest.mark.parametrize("account", ["it's", "$(>stolen)", "a;>stolen", "lab"])
def test_what_the_readme_says_for_ssh_reaches_the_nodes_shell_as_it_is_meant(place: Path, account: str) -> None:
    """The line is given to a shell here; `ssh` joins what it gets with blanks and gives that to another, as it does."""
    programs = place / "programs"
    programs.mkdir()
    bodies = {"ssh": 'shift 2; cd "$0.d"; exec sh -c "$*"', "sudo": "printf '<%s>' \"$@\""}
    for name, body in bodies.items():
        (programs / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        (programs / name).chmod(0o755)
    (programs / "ssh.d").mkdir()
    conf = write_lab(place, nodes=[{**NODES[0], "user_name": account}])
    readme = steps.readme(lab_at(conf), place, defaultdict(lambda: "a.fstab"))
    lines = [line for line in readme.splitlines() if line.startswith("ssh ")]
    assert len(lines) == 2
    for line in lines:
        said = run("sh", "-c", f"admin=root; {line}", PATH=f"{programs}:{PROGRAMS}")
        assert said.endswith(f"<{account}>")
    assert [path.name for path in place.rglob("stolen")] == []


# -- Samba --------------------------------------------------------------------------------------------------------


def samba_options(folder: Path, port: int) -> list[str]:
    """Where this test's smbd has its state; the file itself is used as it was written."""
    folder.mkdir()
    names = ("private dir", "lock directory", "state directory", "cache directory", "pid directory", "ncalrpc dir")
    for name in names:
        (folder / name).mkdir(mode=0o755)
    options = {name: folder / name for name in names} | {
        "log file": folder / "log",
        "passdb backend": f"tdbsam:{folder}/passdb.tdb",
        "interfaces": f"{LOOPBACK}/8",
        "bind interfaces only": "yes",
        "smb ports": port,
    }
    return [f"--option={name}={value}" for name, value in options.items()]


def test_smbd_serves_the_folders_to_who_knows_the_password(lab: Path, place: Path) -> None:
    conf, (port,) = deploy(lab) / "samba" / "smb.conf", free_ports(1)
    said = run("testparm", "-s", str(conf))
    assert "Loaded services file OK" in said
    assert not re.search("(?i)unknown|error|warning|ignoring", said), said
    options = samba_options(place / "smbd", port)
    subprocess.run(
        ["pdbedit", "-s", str(conf), *options, "-a", "-t", ACCOUNT], env={**os.environ, "PATH": PROGRAMS},
        input=f"{PASSWORD}\n{PASSWORD}\n".encode(), capture_output=True, check=True,
    )  # fmt: skip
    (place / "sent").write_text("lr 0.1", encoding="utf-8")

    def client(share: str, commands: str, password: str = PASSWORD) -> list[str]:
        account = f"{ACCOUNT}%{password}"
        return ["smbclient", "-s", str(conf), "-p", str(port), f"//{LOOPBACK}/{share}", "-U", account, "-c", commands]

    with server("smbd", "-F", "--no-process-group", "-s", str(conf), *options, log=place / "out"):
        until("smbd serves", lambda: can(*client("envs", "ls")))
        for share, folder in (("实验 数据", "实验 数据"), ("data #1 -raw", 'data #1 "raw"'), ("it's", "it's")):
            got = place / "got"
            run(*client(share, f'put "{place}/sent" "设置 1.txt"; get "设置 1.txt" "{got}"'))
            put = lab.parent / folder / "设置 1.txt"
            assert put.read_text(encoding="utf-8") == got.read_text(encoding="utf-8") == "lr 0.1"
            assert put.stat().st_uid == lab.stat().st_uid
        assert not can(*client("envs", "ls", password="wrong"))  # noqa: S106
        (lab.parent / "envs" / "out").symlink_to("/etc")
        assert not can(*client("envs", f'get out/hostname "{place}/stolen"'))
