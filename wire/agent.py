"""Messages between the master and the agent on a node: one JSON object per line, told apart by `op`.

This file travels to the nodes: standard library only, Python 3.8 syntax. It owns names and shapes, and the
one rule that whoever starts an agent must keep; else no behaviour.

A conversation. The master connects and says `hello`. The agent answers `refused` (and closes) if it obeys another
master, else `welcome` and right after it one `inventory` of every attempt that it has not been allowed to forget.
From then on `launch`, `kill`, `pause`, `resume`, `ack`, `ping`, `pace`, `probe`, `retire`, `adopt` go one way and
`started`, `exit`, `unproven`, `sample`, `pong`, `probed` the other.

Rules both sides rely on:

* a `launch_id` is claimed at most once, ever; a second `launch` of a known one is answered with its present state
  (`started` or `exit`), never with a second start;
* `exit` is sent again after every reconnect until an `ack` named it; the agent forgets an attempt only then;
* the exit is on the node's disk before `exit` is sent; a whole process tree is dead before `exit` is sent;
* a reader ignores unknown keys and unknown ops, so that one version back can be understood.
"""

from typing import Any, Dict, List, Mapping, Optional, TypedDict

PROTOCOL = 9
RUNS_AS = 3
"""Since this protocol an agent knows `run_as`; one before would run the command as itself."""
PAUSES = 4
"""Since this protocol an agent knows `pause` and `resume`; one before would not hear them."""
GIVES_TOKENS = 5
"""Since this protocol an agent knows `token`; one before would start the command without."""
TELLS_PLACED = 6
"""Since this protocol an agent knows `placed_instead_of`; one before takes each log in a folder of the lab for one that
nobody placed."""
MARKS_STAGES = 7
"""Since this protocol an agent knows `stages`; one before takes the end of a setup for that of the command."""
STAGE_FD = 113
"""By this descriptor the shell of a launch with `stages` writes a byte at the end of each. Programs use small ones, and
shells take the first from 10 on that is free."""
TELLS_DOUBT = 8
"""Since this protocol an agent says of which attempts its records say too little, and of which nothing that lives is
proven to be theirs; a master tells it all that it knows of the former."""
TELLS_GIVEN = 9
"""Since this protocol an agent says of each attempt in its inventory which GPUs its launch gave it."""
MAX_FRAME = 16 * 1024 * 1024
HEARTBEAT_S = 5.0
"""Seconds between the master's pings, at most; a side that receives nothing for three of these takes the other for
gone."""
SAMPLE_S = 2.0
"""Seconds between an agent's samples until the master says something else (`pace`)."""
IDLE_EXIT_S = 60.0
"""An agent with no master and no attempts ends after this long."""
DEFAULT_GRACE_S = 10.0
"""Between TERM and KILL."""

AGENT_VARIABLES = (
    *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "TZ", "TMPDIR"),
    *("XDG_STATE_HOME", "XDG_RUNTIME_DIR", "MUSTER_BOOT_ID"),
)
AGENT_FAMILIES = ("LC_", "LD_", "MUSTER_AGENT_")
"""Variables that an agent is started with: those that it and its programs need, by name and by prefix. Every task can
read it, in /proc/PID/environ of its shim."""


def agent_environment(environ: Mapping[str, str]) -> Dict[str, str]:
    """Return the part of a caller's environment that the agent which they start may have."""
    return {
        name: value for name, value in environ.items() if name in AGENT_VARIABLES or name.startswith(AGENT_FAMILIES)
    }


class Sampling(TypedDict):
    """The contents of a node's samples. `gpus`: `auto`, `nvml`, `gputil`, `declared` (none are probed), or `none` (no
    samples at all: another agent there takes them); `folders`: those whose file systems matter."""

    gpus: str
    folders: List[str]


class Hello(TypedDict):
    """master -> agent, the first line. `lineage`: the last incarnations of this master, [epoch, incarnation], oldest
    first, ending with its own: an agent obeys only a descendant of the master that it obeyed before. `sampling` is
    absent in those of masters before it."""

    op: str
    protocol: int
    cluster: str
    epoch: int
    incarnation: str
    lineage: List[List[Any]]
    sampling: Sampling


class Welcome(TypedDict):
    """agent -> master. `state_id` names the agent's state folder: a claim made there can be looked up only there.
    `version` is the digest of the archive that the agent was started from; `machine` the machine's own id
    (machine-id(5)), "" where it has none: with `boot_id` it tells a machine that is entered twice. `login_fault` says
    what was wrong with the account's log-in shell, whose environment tasks begin with; "" where it answered (agents
    before it do not say). `uid`: the agent's, which its tasks have, too, unless they `run_as`
    another (absent before protocol 2); `account`: its name, and `can_run_as`: whether it is root and can run commands
    as others (absent before protocol 3). `tmp_disk_mib`: size of the file system of /tmp, None where that cannot be
    read (absent in agents before). `keeps_pace`: it knows `pace` (absent in agents before)."""

    op: str
    protocol: int
    version: str
    pid: int
    uid: int
    account: str
    can_run_as: bool
    boot_id: str
    machine: str
    state_id: str
    hostname: str
    python: str
    cpus: int
    memory_mib: int
    tmp_disk_mib: Optional[int]
    now: float
    login_fault: str
    keeps_pace: bool


class Pace(TypedDict):
    """master -> agent that `keeps_pace`, after its inventory, and again when a value changes: from now on it samples
    every `sample_s` seconds, and a ping comes every `heartbeat_s`, which is HEARTBEAT_S at most. On each connection a
    ping comes every HEARTBEAT_S until this is said."""

    op: str
    sample_s: float
    heartbeat_s: float


class Refused(TypedDict):
    """agent -> master, then the agent closes. `code`: `fenced` (another master is obeyed), `busy` (another master's
    connection is alive) or `unwritable` (nothing can be written down here); `epoch` and `incarnation` are those
    obeyed. `folder`: the agent's; whoever moves it away makes this agent end, and the next one obeys the first master
    that comes (absent before protocol 2)."""

    op: str
    code: str
    message: str
    epoch: int
    incarnation: str
    folder: str


class RunAs(TypedDict, total=False):
    """Of a launch and a probe, where an agent that `can_run_as` others shall (since protocol 3; an agent that cannot
    refuses those that are for another account than its own). `run_as`: the account's name. Refused are accounts that
    are not there, root, and those with uids of the system's, but for the names and uids in `run_as_allowed`.

    All that is touched is touched as that account, and what a log-in gives is that account's. `log_folder`, of a
    launch: where its log lies if nobody placed it, "" if somebody did; in it the agent makes a folder of the account's,
    in that the log, and at `log_path` a link to it."""

    run_as: str
    run_as_allowed: List[Any]
    log_folder: str


class EarlySignal(TypedDict):
    """Of a launch: `before_s` seconds before its time limit, the processes that heed the signal get it: those that
    would not die of it, since they have a handler for it, or block it. `main_only`: the command's own at most."""

    name: str
    before_s: float
    main_only: bool


class Warned(RunAs, total=False):
    """Of a launch, where something is sent before its limit (since protocol 4)."""

    signal: EarlySignal


class Given(Warned, total=False):
    """Of a launch that submits others. `token`: text that is secret. It is written into a file that only the account
    can read as which the command runs, and whose path is the variable TOKEN_FILE; the file goes with the attempt. It
    stands in no record. Since protocol 5."""

    token: str


class Together(Given, total=False):
    """Of a launch of one part of several. `hosts`: a line for each machine, `HOST slots=N`, as mpirun reads them. It is
    written into a file of the same account's, whose path is the variable HOST_FILE, and which goes with the attempt. An
    agent that does not know it leaves none."""

    hosts: str


TOKEN_FILE = "MUSTER_TOKEN_FILE"  # noqa: S105  (the name of a variable)


HOST_FILE = "MUSTER_HOSTFILE"


class Placed(Together, total=False):
    """Of a launch whose log somebody placed. `placed_instead_of`: the folder where it would lie otherwise. Where the
    log cannot be opened, that is the fault of whoever chose it, unless that folder takes nothing either. Since protocol
    6."""

    placed_instead_of: str


class Staged(Placed, total=False):
    """Of a launch whose shell does something before the command. `stages`: for each such thing, in order, the exit code
    of an attempt whose shell ended in it by itself, whatever it said. Since protocol 7."""

    stages: List[int]


class Launch(Staged):
    """master -> agent. `argv` is executed as it is, in `cwd`, with `env` laid over what a log-in of the account gives
    there (the master cannot know a node's HOME and PATH). `log_path` is created, with its folder, and appended to;
    `log_new`: what lies there with something in it is of an earlier life, and is moved aside first. `time_limit_s` is
    enforced on the node, so it holds while the master is away. `roots`: folders that every machine of the lab has;
    where one of them is gone, or takes nothing, it is the node that cannot start the attempt. `log_bytes`: a log that
    has grown beyond ends its task; 0: none does (absent before protocol 2)."""

    op: str
    launch_id: str
    argv: List[str]
    cwd: str
    env: Dict[str, str]
    log_path: str
    log_new: bool
    grace_s: float
    log_bytes: int
    time_limit_s: Optional[float]
    roots: List[str]


class Kill(TypedDict):
    """master -> agent. Harmless when the attempt has ended; an unknown launch_id is claimed as ended, so that a
    launch which is still on its way cannot start after its kill."""

    op: str
    launch_id: str
    grace_s: float


class Pause(TypedDict):
    """master -> agent: stop the whole tree of an attempt that runs (SIGSTOP), or, as `resume`, let it go on (SIGCONT).
    A task that does not run, or is to end, is left alone. The agent says `started` again, with `paused`, once all of it
    stands still; without it once it does not any more, whoever continued it, and to each `resume`. Since protocol 4."""

    op: str
    launch_id: str


class Ack(TypedDict):
    """master -> agent: these exits are durable with the master; forget them."""

    op: str
    launch_ids: List[str]


class Probe(RunAs):
    """master -> agent: run a short command and say what it printed; for questions about the node (is the shared
    folder there, what does this environment import). Nothing of it is durable, and it never holds a GPU. `env` is laid
    over what a log-in gives, as for a task; `stdin` is given to it whole. After `timeout_s` seconds its whole tree is
    killed; of stdout and stderr together at most `output_limit` bytes are kept."""

    op: str
    probe_id: str
    argv: List[str]
    cwd: Optional[str]
    env: Dict[str, str]
    stdin: str
    timeout_s: float
    output_limit: int


class Probed(TypedDict):
    """agent -> master: the answer to a probe. `code` is None where the command did not end by itself; `error` says
    why (`timed out after 10 s`, `/x/python: No such file or directory`), else it is empty. Bytes of `output` that are
    not UTF-8 are replaced."""

    op: str
    probe_id: str
    code: Optional[int]
    output: str
    truncated: bool
    error: str


class Owned(TypedDict, total=False):
    """Of an attempt that runs, or ran, as its owner: the account (`run_as`), and the path of its log; else absent.
    Since protocol 3."""

    run_as: str
    log_path: str


class Lost(Owned):
    """The master's knowledge of an attempt whose claim was in a state folder that is gone. `pid`, which is the
    session's number too, and `pid_start` as in Started; 0 and None where it had not heard of the start."""

    launch_id: str
    pid: int
    pid_start: Optional[int]
    started_at: Optional[float]


class Adopt(TypedDict):
    """master -> agent, before the first `inventory` of a new state folder is believed, or one that lacks an attempt or
    is in `doubt` of one: these were started on this machine since it booted, and may be alive. The agent claims each
    and looks after what lives of it; those that it cannot speak for (they are another account's) it leaves. It answers
    with an `inventory`, in which nothing is in doubt. Since protocol 2."""

    op: str
    attempts: List[Lost]


class Retire(TypedDict):
    """master -> agent: end, leaving everything that runs to its shims; the agent that is started next takes them over.
    So a node gets the agent of a newer master, or none (`muster agents stop`), without a task noticing."""

    op: str


class Started(Owned):
    """agent -> master. `at`: seconds since the epoch, the node's clock. `pid_start`: clock ticks since the node's boot,
    which tell this process from a later one with its number (absent before protocol 2).
    Told again with `log_bytes` and `log_limit`, which else are absent, when its log has reached 80 % of what it may;
    and with `paused`, which else is absent, while its whole tree stands still (since protocol 4)."""

    op: str
    launch_id: str
    pid: int
    pid_start: int
    at: float
    paused: bool
    log_bytes: int
    log_limit: int


RAN_OUT = ("oom_gpu", "oom_gpu_maybe", "oom_host", "shm_full", "disk_full")
"""Memory of a GPU; perhaps that, if it was nearly full; of the machine; shared memory; space on a disk."""


class Found(Owned, total=False):
    """Of an exit, what is known besides, absent where nothing is (since protocol 4). `reached`: how many processes
    heeded the signal before the time limit, and got it. Of a command that ended by itself with other than 0, `ran_out`:
    what there was too little of, one of RAN_OUT; `last_line`: the line of its log that says most of its end, at most
    300 characters, and as private as the log."""

    reached: int
    ran_out: str
    last_line: str


class Exit(Found):
    """agent -> master: the attempt is over and its whole tree is dead.

    `cause` is one of CAUSES; `code` is the exit code as bash would give it (128 + N after signal N), or None where
    it is not known; `error` says, for `not_started`, what could not be done, and `fault` whose fault that was: `node`
    (claim or log not writable, no process to be had, a folder of `roots` gone) or `task`; "" means that too.
    """

    op: str
    launch_id: str
    code: Optional[int]
    cause: str
    error: str
    fault: str
    started_at: Optional[float]
    at: float


CAUSES = ("exited", "killed", "timed_out", "log_too_large", "not_started", "unknown", "rebooted")
"""exited: by itself; killed: after a kill of ours; not_started: folder, log or interpreter missing (`error`);
unknown: the shim died, so nobody saw the code; rebooted: the machine's boot id changed under it."""


class Unproven(TypedDict):
    """agent -> master: the record of this attempt was lost, nothing that lives is proven to be of it, and these
    processes may be: they carry its launch id, or are of its process group. They are not signalled, whoever asks for
    that, and the attempt is not over while they live; empty: that is so no more. Said again to each `kill`. Since
    protocol 7."""

    op: str
    launch_id: str
    pids: List[int]


class Doubt(Found, total=False):
    """Of an entry of an inventory, else absent (since protocol 7). `doubt`: the record of this attempt is lost, or says
    too little; the master is to tell what it knows (`adopt`). `unproven`: as in Unproven."""

    doubt: bool
    unproven: List[int]


class LaunchSaid(Doubt, total=False):
    """Of an entry of an inventory that has not ended, what its launch said, as its record has it; absent where that
    does not say it (since protocol 9). `gpus`: the value of CUDA_VISIBLE_DEVICES; `name`: of its task; `log`: where its
    log was placed."""

    gpus: str
    name: str
    log: str


class Attempt(LaunchSaid):
    """One entry of an inventory: `state` is `claimed`, `running` or `ended`; the other keys as in Started and Exit."""

    launch_id: str
    state: str
    pid: Optional[int]
    pid_start: Optional[int]
    started_at: Optional[float]
    code: Optional[int]
    cause: str
    error: str
    fault: str
    at: Optional[float]


class Inventory(TypedDict):
    """agent -> master, once after `welcome`."""

    op: str
    attempts: List[Attempt]


class Process(TypedDict):
    """A process that holds memory of a GPU. `launch_id` names the attempt it belongs to, "" where it is foreign; `user`
    is "" where nobody can say."""

    pid: int
    user: str
    memory_mib: Optional[int]
    launch_id: str


class Gpu(TypedDict):
    """One GPU in a sample; what its source does not tell is None. `utilization` and `memory_utilization` in percent,
    `temperature` in degrees Celsius, `power` in watts. `ecc_errors`: uncorrectable ones since the driver was loaded;
    `xid`: the number of the last critical Xid event. `fault` says why it can do no work (it fell off the bus, its ECC
    errors …), else ""."""

    index: int
    uuid: str
    model: str
    utilization: Optional[float]
    memory_utilization: Optional[float]
    memory_total_mib: Optional[int]
    memory_used_mib: Optional[int]
    temperature: Optional[float]
    power: Optional[float]
    ecc_errors: Optional[int]
    xid: Optional[int]
    mig: bool
    processes: List[Process]
    fault: str


class Network(TypedDict):
    """One network interface: bytes per second since the sample before, and its bandwidth in bits per second (None where
    the driver does not say)."""

    name: str
    received_ps: float
    sent_ps: float
    bandwidth: Optional[float]


class Disk(TypedDict):
    """The file system that holds one of the folders that matter here."""

    path: str
    total_mib: int
    free_mib: int


class Sample(TypedDict):
    """agent -> master, about every SAMPLE_S, from the sampling child; absent while that child is silent.

    `at`: the node's clock, seconds since the epoch. `memory` has psutil's names and bytes (`total available percent
    used free active inactive buffers cached shared slab`; those the machine tells), and `swap_total swap_used`.
    `gpu_source` is `nvml`, `gputil`, `nvidia-smi` or `none`; `gpu_fault` says what is wrong with the driver as a whole,
    else "". The keys from `memory` on are absent in samples of agents before them.
    """

    op: str
    at: float
    cpu_percent: float
    cpu_percents: List[float]
    load: List[float]
    memory_total_mib: int
    memory_available_mib: int
    memory: Dict[str, float]
    network: List[Network]
    disks: List[Disk]
    gpus: List[Gpu]
    gpu_source: str
    gpu_fault: str
