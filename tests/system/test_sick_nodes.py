"""Machines that are up and can start nothing, each for another reason: no task pays for it, and they are set aside."""

from __future__ import annotations

from tests.system.ssh_asking import NOTICED_S, ended, node_of, submit, until_state
from tests.system.ssh_lab import SshLab
from tests.testbed.bed import Testbed
from tests.testbed.host import Host
from tests.waiting import until

TASKS = 40


def sick_and_well(testbed: Testbed, lab: SshLab) -> tuple[Host, Host]:
    """Two machines that take tasks; what is broken is broken under the eyes of the master."""
    sick, well = testbed.hosts[2], testbed.hosts[4]
    lab.set_hosts([sick, well])
    lab.start_trusted()
    assert ended(lab, submit(lab, "exit 3", node=sick.name, gpus=1)) == ("failed", 3)
    return sick, well


def no_task_pays(lab: SshLab, sick: Host, words: str) -> None:
    """All tasks succeed, few feel it, and everybody is told why the node was set aside, with the cure."""
    with lab.client() as client:
        ids = [client.submit("true") for _ in range(TASKS)]
    for number in ids:
        assert ended(lab, number) == ("succeeded", 0), number
    # One that the machine alone may take brings it to its third fault, should the others have been quicker elsewhere.
    pinned = [submit(lab, "true", node=sick.name, gpus=0) for _ in range(3)]
    why_aside = until("the machine is set aside", lambda: node_of(lab, sick.name)["sick"], 60)
    assert words in why_aside
    with lab.client() as client:
        until("what was under way is back", lambda: not client.tasks(ids=pinned, states=["starting"]), NOTICED_S)
        tasks = client.tasks(ids=[*ids, *pinned])
        assert all(task["state"] in ("succeeded", "waiting") for task in tasks)
        assert sum(bool(task["unstarted"]) for task in tasks) <= 3
        why = client.why(pinned[0])
        assert words in str(why)
    told = lab.muster("nodes").stdout
    assert "aside" in told
    assert f"muster node resume {sick.name}" in told
    assert f"muster node resume {sick.name}" in lab.muster("node", "doctor", sick.name).stdout
    assert lab.server_log().count(f"node {sick.name}: set aside") == 1


def it_works_again(lab: SshLab, sick: Host) -> None:
    """The admin has mended it and returns it; what waited for it runs."""
    assert lab.muster("node", "resume", sick.name).returncode == 0
    with lab.client() as client:
        until("nothing waits", lambda: not client.tasks(states=["waiting", "starting", "running"]), NOTICED_S)
        assert {task["state"] for task in client.tasks(ended=True)} == {"succeeded", "failed"}
        assert sum(task["state"] == "failed" for task in client.tasks(ended=True)) == 1
    assert ended(lab, submit(lab, "exit 4", node=sick.name, gpus=1)) == ("failed", 4)


def test_a_machine_whose_state_disk_is_read_only_burns_nothing(testbed: Testbed, ssh_lab: SshLab) -> None:
    sick, _ = sick_and_well(testbed, ssh_lab)
    state = f"/home/{Host.user}/.local/state/muster"
    # The agent's open files stay writable, as where the kernel has remounted a disk with errors; paths do not. It is
    # made so elsewhere, where nobody opens files while it is, and then moved there.
    elsewhere = "/mnt/read-only"
    sick.run("mkdir", elsewhere)
    sick.run("mount", "--bind", state, elsewhere)
    sick.run("mount", "-o", "remount,ro,bind", elsewhere)
    sick.run("mount", "--move", elsewhere, state)
    no_task_pays(ssh_lab, sick, "Read-only file system")
    ssh_lab.kill_master()
    ssh_lab.start()
    node = until_state(ssh_lab, sick.name, "unreachable")
    assert "Read-only file system" in (node["reason"] or "")
    assert node["sick"] is not None
    sick.run("umount", "--lazy", state)
    ssh_lab.muster("agents", "start", sick.name)
    it_works_again(ssh_lab, sick)


def test_a_machine_that_gives_no_processes_burns_nothing(testbed: Testbed, ssh_lab: SshLab) -> None:
    sick, _ = sick_and_well(testbed, ssh_lab)
    agent = (ssh_lab.agent_folder(sick.name) / "lock").read_text(encoding="ascii").strip()
    limits = [["prlimit", "--pid", pid] for pid in (agent, *until("a shim", lambda: standing_by(sick, agent)))]
    before = sick.run(*limits[0], "--nproc", "--output=SOFT", "--noheadings", user=Host.user).strip()
    for limit in limits:
        sick.run(*limit, "--nproc=0:", user=Host.user)
    no_task_pays(ssh_lab, sick, "no process could be made")
    sick.run(*limits[0], f"--nproc={before}:", user=Host.user)
    it_works_again(ssh_lab, sick)


def standing_by(host: Host, agent: str) -> list[str]:
    """The shims that stand by: forks of the agent's that lead a session."""
    listed = [line.split(None, 3) for line in host.run("ps", "-e", "-o", "pid=,ppid=,sid=,args=").splitlines()]
    return [pid for pid, parent, session, words in listed if (parent, session) == (agent, pid) and " --state " in words]


def test_where_the_shim_was_the_last_process_to_be_had_the_command_is_not_begun(
    testbed: Testbed, ssh_lab: SshLab
) -> None:
    sick, _ = sick_and_well(testbed, ssh_lab)
    agent = (ssh_lab.agent_folder(sick.name) / "lock").read_text(encoding="ascii").strip()
    for pid in until("a shim stands by", lambda: standing_by(sick, agent)):
        sick.run("prlimit", "--pid", pid, "--nproc=0:", user=Host.user)
    number = submit(ssh_lab, "echo $(echo done)", node=sick.name, gpus=0)
    assert ended(ssh_lab, number) == ("succeeded", 0)
    with ssh_lab.client() as client:
        (task,) = client.tasks(ids=[number])
    assert task["attempt"] == 2
    assert "no process could be made for the command" in task["unstarted"][0]["why"]


def test_a_machine_whose_shared_folder_went_away_burns_nothing(testbed: Testbed, ssh_lab: SshLab) -> None:
    sick, _ = sick_and_well(testbed, ssh_lab)
    # The lab asks for its folders only every few minutes: until then the tasks would find out, one after the other.
    sick.run("umount", "--lazy", str(testbed.shared))
    no_task_pays(ssh_lab, sick, "shared folder")
    # Mounted again, as by its own fstab.
    sick.run("mount", "--bind", "/mnt/shared", str(testbed.shared))
    it_works_again(ssh_lab, sick)


def test_with_the_disk_of_the_whole_lab_full_tasks_wait_and_run_when_there_is_room(
    testbed: Testbed, ssh_lab: SshLab
) -> None:
    hosts = testbed.hosts[:4]
    ssh_lab.set_hosts(hosts)
    ssh_lab.start_trusted()
    shared = str(ssh_lab.root)
    for host in hosts:
        until_state(ssh_lab, host.name, "online")
        host.run("mount", "-t", "tmpfs", "-o", "nr_inodes=2,mode=777", "tmpfs", shared)
        host.run("mkdir", "-m", "777", f"{shared}/train_logs")  # the last that there is room for
    with ssh_lab.client() as client:
        # At once: the first would have failed where three had refused it before they were asked for any other.
        ids = [*client.submit_batch(["true"] * (TASKS // 2), gpus=1), *client.submit_batch(["true"] * (TASKS // 2))]
        for host in hosts:
            until("the machine is set aside", lambda host=host: node_of(ssh_lab, host.name)["sick"], 90)  # type: ignore[misc]
        until("what was under way is back", lambda: not client.tasks(ids=ids, states=["starting"]), NOTICED_S)
        assert {task["state"] for task in client.tasks(ids=ids)} == {"waiting"}
        assert "No space left on device" in str(client.why(ids[0]))
    for host in hosts:
        host.run("umount", "--lazy", shared)
    assert ssh_lab.muster("node", "resume", *(host.name for host in hosts)).returncode == 0
    for number in ids:
        assert ended(ssh_lab, number) == ("succeeded", 0), number
