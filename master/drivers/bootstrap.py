# ruff: noqa: ANN001, ANN201, UP031, SIM105  (it runs on the node's Python: one that is too old must be able to say so)
# ruff: noqa: PTH101, PTH103, PTH104, PTH108, PTH111, PTH113, PTH116, PTH117, PTH118, PTH123, PTH202, PTH204, PTH208
"""The first script that runs on a node: finds the agent's archive or asks for it, and becomes the agent's `attach`.

The source of this very file is sent over the connection (`ssh_attach` says how), so it is ASCII, of the standard
library, and of a syntax that Python 2.7 can read: it must get as far as `main`, which says that it is too old. It owns
where an agent's state and archives lie on a machine; the driver `local` asks it too. Each line that it says begins
with `muster-bootstrap`: `old VERSION`, `have`, `need KIND`, `failed WHY`.
"""

import os
import re
import stat
import sys
import time

OLDEST = (3, 8)
NETWORK_FILE_SYSTEMS = ("nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "9p", "ceph", "lustre")
ARCHIVES_KEPT = 5
ARCHIVES_KEPT_S = 86400


class RefusalError(Exception):
    """This machine cannot take an agent; the message says why."""


def state_base(mounts="/proc/self/mountinfo"):
    # type: (str) -> str
    """Where agents of this user keep their state: on this machine's own disk, never where cleaners empty it."""
    configured = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(configured):
        configured = os.path.join(os.path.expanduser("~"), ".local", "state")
    base = os.path.join(configured, "muster")
    if file_system(base, mounts) in NETWORK_FILE_SYSTEMS:
        return "/var/tmp/muster-%d" % os.getuid()  # noqa: S108  (`make_base` looks whose it is)
    return base


def file_system(path, mounts):
    # type: (str, str) -> str
    """The type of the file system that holds `path`, which need not exist yet."""
    best, kind = "", ""
    with open(mounts, encoding="utf-8", errors="replace") as table:
        for line in table:
            left, _, right = line.partition(" - ")
            mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), left.split()[4])
            if (os.path.realpath(path) + "/").startswith(mount.rstrip("/") + "/") and len(mount) >= len(best):
                best, kind = mount, right.split()[0]
    return kind


def make_base(base):
    # type: (str) -> None
    """Make the folder, ours alone. Raises OSError, and RefusalError when it is somebody else's."""
    os.makedirs(base, mode=0o700, exist_ok=True)
    # Where everybody may write, another account could have put a link of this name, to change it later.
    found = os.lstat(base) if base.startswith("/var/tmp/") else os.stat(base)  # noqa: S108
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise RefusalError("%s is not a folder of uid %d: remove it" % (base, os.geteuid()))
    if stat.S_IMODE(found.st_mode) & 0o077:
        os.chmod(base, 0o700)


def path_of(base, checksum):
    # type: (str, str) -> str
    """Where the archive lies: by all its bytes, for a running agent goes on reading its file."""
    return os.path.join(base, "agent-%s.pyz" % checksum[:16])


def has(archive, size, checksum):
    # type: (str, int, str) -> bool
    """Whether the archive is there, whole and as it was sent."""
    if not os.path.isfile(archive) or os.path.getsize(archive) != size:
        return False
    with open(archive, "rb") as file:
        return digest_of(file.read()) == checksum


def digest_of(data):
    # type: (bytes) -> str
    """SHA-256 in hex."""
    import hashlib  # noqa: PLC0415  (not before we know that this Python is new enough)

    return hashlib.sha256(data).hexdigest()


def magic():
    # type: () -> str
    """The number at the head of byte code for this Python, in hex."""
    import importlib.util  # noqa: PLC0415

    return "".join("%02x" % byte for byte in importlib.util.MAGIC_NUMBER)


def can_unpack():
    # type: () -> bool
    """Whether this Python was built with zlib."""
    try:
        import zlib  # noqa: F401, PLC0415
    except ImportError:
        return False
    return True


def receive(size, checksum):
    # type: (int, str) -> bytes
    """Read the archive from stdin. Raises RefusalError if it comes in part or differently."""
    data = bytearray()
    while len(data) < size:
        data += piece_of_input(size - len(data))
    return checked(bytes(data), checksum)


def receive_packed(size, checksum):
    # type: (int, str) -> bytes
    """Read the archive in zlib's format from stdin, all of it: what follows is for the agent. Raises as `receive`."""
    import zlib  # noqa: PLC0415

    data, unpacker = bytearray(), zlib.decompressobj()
    try:
        while not unpacker.eof and len(data) <= size:
            data += unpacker.decompress(piece_of_input(65536), size + 1)
    except zlib.error:
        data = bytearray()
    return checked(bytes(data), checksum)


def piece_of_input(most):
    # type: (int) -> bytes
    """The next bytes of stdin. Raises RefusalError at its end."""
    piece = os.read(0, min(most, 65536))
    if not piece:
        raise RefusalError("the connection ended within the archive")
    return piece


def checked(data, checksum):
    # type: (bytes, str) -> bytes
    """The same data. Raises RefusalError if its checksum is another."""
    if digest_of(data) != checksum:
        raise RefusalError("the archive arrived damaged")
    return data


def keep(archive, data):
    # type: (str, bytes) -> None
    """Write the archive so that its name never stands for a part of it. Raises OSError."""
    draft = "%s.%d.tmp" % (archive, os.getpid())
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.fsync(fd)
        os.rename(draft, archive)
    except OSError as error:
        os.unlink(draft)
        error.filename = archive  # writing to a descriptor names no file
        raise
    finally:
        os.close(fd)


def sweep(base, now):
    # type: (str, float) -> None
    """Remove archives, and drafts of some, beyond the newest that are older than a day."""
    found = []
    for name in os.listdir(base):
        path = os.path.join(base, name)
        if name.startswith("agent-") and os.path.isfile(path):
            found.append((os.path.getmtime(path), path))
    for modified, path in sorted(found, reverse=True)[ARCHIVES_KEPT:]:
        if now - modified > ARCHIVES_KEPT_S:
            os.unlink(path)


def say(text):
    # type: (str) -> None
    """Print a line for the program that started us; characters that are not ASCII are escaped."""
    os.write(1, ("muster-bootstrap %s\n" % text).encode("ascii", "backslashreplace"))


def prepare(base, kind, size, checksum):
    # type: (str, str, int, str) -> str
    """See that the archive is there; its path. Raises OSError and RefusalError."""
    make_base(base)
    archive = path_of(base, checksum)
    if has(archive, size, checksum):
        say("have")
        os.utime(archive, None)
        return archive
    say("need %s" % kind)
    data = receive(size, checksum) if kind == "unpacked" else receive_packed(size, checksum)
    keep(archive, data)
    try:
        sweep(base, time.time())
    except OSError:
        pass  # another log-in of this account sweeps at the same time; what it left is for the next one
    return archive


def main(compiled, sources, folder):
    # type: (tuple[str, int, str], tuple[int, str], str) -> None
    """Become `attach` for the agent whose state lies in `folder`, or say why not and end with 1. `compiled`: what byte
    code begins with that one archive has, the size and checksum of it; `sources`: those of one without."""
    if sys.version_info < OLDEST:
        say("old %d.%d.%d" % tuple(sys.version_info[:3]))
        sys.exit(1)
    base = state_base()
    try:
        if not can_unpack():  # with byte code it would come three times as long
            archive = prepare(base, "unpacked", *sources)
        elif compiled[0] == magic():
            archive = prepare(base, "compiled", *compiled[1:])
        else:
            archive = prepare(base, "sources", *sources)
    except RefusalError as error:
        say("failed %s" % error)
        sys.exit(1)
    except OSError as error:
        say("failed %s: %s" % (error.filename or base, error.strerror))
        sys.exit(1)
    command = [sys.executable, "-I", archive, "attach", "--state", os.path.join(base, folder)]
    os.execv(sys.executable, command)  # noqa: S606  (a shell is what we came through)
