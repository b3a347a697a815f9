"""What the master and the agent on a node say to each other: one JSON object per line, told apart by `op`.

This file travels to the nodes: standard library only, Python 3.8 syntax. It owns names and shapes, no behaviour.

A conversation. The master connects and says `hello`. The agent answers `refused` (and closes) if it obeys another
master, else `welcome` and right after it one `inventory` of every attempt that it has not been allowed to forget.
From then on `launch`, `kill`, `ack`, `ping`, `probe`, `retire` go one way and `started`, `exit`, `sample`, `pong`,
`probed` the other.

Rules both sides rely on:

* a `launch_id` is claimed at most once, ever; a second `launch` of a known one is answered with what is there
  (`started` or `exit`), never with a second start;
* `exit` is sent again after every reconnect until an `ack` named it; the agent forgets an attempt only then;
* the exit is on the node's disk before `exit` is sent; a whole process tree is dead before `exit` is sent;
* whoever reads ignores unknown keys and unknown ops, so that one version back can be understood.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, TypedDict

PROTOCOL = 1
MAX_FRAME = 16 * 1024 * 1024
HEARTBEAT_S = 5.0
"""The master pings this often; whoever hears nothing for three of these takes the other side for gone."""
IDLE_EXIT_S = 60.0
"""An agent with no master and no attempts ends after this long."""
DEFAULT_GRACE_S = 10.0
"""Between TERM and KILL."""


class Sampling(TypedDict):
    """What the samples of a node shall tell. `gpus`: `auto`, `nvml`, `gputil`, or `declared` (none are probed);
    `folders`: those whose file systems matter."""

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
    `version` is the digest of the archive that the agent was started from."""

    op: str
    protocol: int
    version: str
    pid: int
    boot_id: str
    state_id: str
    hostname: str
    python: str
    cpus: int
    memory_mib: int
    now: float


class Refused(TypedDict):
    """agent -> master, then the agent closes. `code`: `fenced` (another master is obeyed) or `busy` (another master's
    connection is alive); `epoch` and `incarnation` are those obeyed."""

    op: str
    code: str
    message: str
    epoch: int
    incarnation: str


class Launch(TypedDict):
    """master -> agent. `argv` is executed as it is, in `cwd`, with `env` laid over the agent's own environment (the
    master cannot know a node's HOME and PATH). `log_path` is created, with its folder, and appended to.
    `time_limit_s` is enforced on the node, so it holds while the master is away."""

    op: str
    launch_id: str
    argv: List[str]
    cwd: str
    env: Dict[str, str]
    log_path: str
    grace_s: float
    time_limit_s: Optional[float]


class Kill(TypedDict):
    """master -> agent. Harmless when the attempt has ended; an unknown launch_id is claimed as ended, so that a
    launch which is still on its way cannot start after its kill."""

    op: str
    launch_id: str
    grace_s: float


class Ack(TypedDict):
    """master -> agent: these exits are durable with the master; forget them."""

    op: str
    launch_ids: List[str]


class Probe(TypedDict):
    """master -> agent: run a short command and say what it printed; for questions about the node (is the shared
    folder there, what does this environment import). Nothing of it is durable, and it never holds a GPU. `env` is laid
    over the agent's own environment; `stdin` is given to it whole. After `timeout_s` seconds its whole tree is killed;
    of stdout and stderr together at most `output_limit` bytes are kept."""

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


class Retire(TypedDict):
    """master -> agent: end, leaving everything that runs to its shims; the agent that is started next takes them over.
    So a node gets the agent of a newer master, or none (`muster agents stop`), without a task noticing."""

    op: str


class Started(TypedDict):
    """agent -> master. `at`: seconds since the epoch, the node's clock."""

    op: str
    launch_id: str
    pid: int
    at: float


class Exit(TypedDict):
    """agent -> master: the attempt is over and its whole tree is dead.

    `cause` is one of CAUSES; `code` is the exit code as bash would give it (128 + N after signal N), or None where
    it is not known; `error` says, for `not_started`, what could not be done.
    """

    op: str
    launch_id: str
    code: Optional[int]
    cause: str
    error: str
    started_at: Optional[float]
    at: float


CAUSES = ("exited", "killed", "timed_out", "not_started", "unknown", "rebooted")
"""exited: by itself; killed: after a kill of ours; not_started: folder, log or interpreter missing (`error`);
unknown: the shim died, so nobody saw the code; rebooted: the machine's boot id changed under it."""


class Attempt(TypedDict):
    """One entry of an inventory: `state` is `claimed`, `running` or `ended`; the other keys as in Started and Exit."""

    launch_id: str
    state: str
    pid: Optional[int]
    started_at: Optional[float]
    code: Optional[int]
    cause: str
    error: str
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
    """agent -> master, about every 2 s, from the sampling child; absent while that child is silent.

    `at`: the node's clock, seconds since the epoch. `memory` has psutil's names and bytes (`total available percent
    used free active inactive buffers cached shared slab`; those the machine tells). `gpu_source` is `nvml`, `gputil`,
    `nvidia-smi` or `none`; `gpu_fault` says what is wrong with the driver as a whole, else "". The keys from `memory`
    on are absent in samples of agents before them.
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
