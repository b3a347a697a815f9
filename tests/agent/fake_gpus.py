"""A machine with GPUs that are not there: a text file, an `nvidia-smi` for the PATH and an NVML library, all agreeing.

The file has a line for each thing: `gpu KEY=VALUE… name=REST`, `process uuid=… pid=… mib=…`, `xid uuid=… number=…`;
and for what goes wrong `hang`, `slow SECONDS`, `busy SECONDS`, `init CODE` (of nvmlInit), `say TEXT`, `exit STATUS`,
`nofield NAME`, `crash`. A figure of a GPU that is `-` is not supported there; `!CODE` fails with that nvmlReturn_t.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.script_head import script_head

DATA = Path(__file__).parents[1] / "data" / "nvidia"
MODEL = "NVIDIA H100 80GB HBM3"


def uuid(number: int) -> str:
    return f"GPU-{number:08d}-2222-3333-4444-555555555555"


def gpu(number: int, **keys: object) -> str:
    """A line of the file. Later GPUs are on later buses and work a little more."""
    told: dict[str, object] = {
        "bus": f"00000000:{0x3B + number:02X}:00.0",
        "uuid": uuid(number),
        "util": 37 + number,
        "memutil": 5,
        "total": 81559,
        "used": 4 + number,
        "temp": 41,
        "power": 123.5,
        "ecc": 0,
        "mig": 0,
        "serial": 1650223012345 + number,
        **keys,
        "name": keys.get("name", MODEL),
    }
    name = told.pop("name")
    return f"gpu {' '.join(f'{key}={value}' for key, value in told.items())} name={name}"


def process(number: int, pid: int, mib: object = 512) -> str:
    return f"process uuid={uuid(number)} pid={pid} mib={mib}"


class Machine:
    """`has` says what it is now; `env` what a process there is started with."""

    def __init__(self, folder: Path, *lines: str) -> None:
        self.folder = folder
        self.path = folder / "gpus"
        self.bin = folder / "bin"
        self.lib = folder / "lib"
        self.lib.mkdir(parents=True)
        (self.lib / "libnvidia-ml.so.1").touch()  # what is no library ends the search for one, on a machine that has it
        self.has(*lines)

    def has(self, *lines: str) -> None:
        """From now on. Who reads sees the old lines or the new ones."""
        draft = self.path.with_suffix(".draft")
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        draft.replace(self.path)

    def with_smi(self) -> Machine:
        """It has nvidia-smi."""
        self.bin.mkdir()
        script = self.bin / "nvidia-smi"
        body = (DATA / "nvidia-smi").read_text(encoding="utf-8").partition("\n")[2]
        script.write_text(script_head("-IS") + body, encoding="utf-8")
        script.chmod(0o755)
        return self

    def with_nvml(self, *flags: str) -> Machine:
        """It has the library. `flags`: `-DOLD` for one of 2018."""
        library = self.lib / "libnvidia-ml.so.1"
        command = ["gcc", "-shared", "-fPIC", *flags, "-Wl,-soname,libnvidia-ml.so.1", "-o", str(library)]
        subprocess.run([*command, str(DATA / "stub_nvml.c")], check=True, timeout=60)
        return self

    @property
    def env(self) -> dict[str, str]:
        """What names the machine."""
        path = os.pathsep.join([str(self.bin), os.environ["PATH"]])
        return {"MUSTER_AGENT_FAKE_GPUS": str(self.path), "PATH": path, "LD_LIBRARY_PATH": str(self.lib)}

    def calls(self) -> list[str]:
        """How nvidia-smi was called so far."""
        try:
            return Path(f"{self.path}.calls").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
