"""What a task's environment begins with: what a log-in of this account on this machine gives, and nobody else's.

Asked once, when the agent starts: `bash -lc env` from an environment that holds the account and the machine's own
settings only. So a site's proxies, modules and CUDA are there, and what the person had exported who happened to start
the master, or a node's agent, is not. It owns the question and what stands in for an answer that does not come; the
process that runs the shell is `probe`'s, which ends whatever the shell left behind.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import pwd
import re
import select
import signal
import time
from typing import Any, Dict, List, NoReturn, Tuple

from .. import fork
from .probe import GIVE_UP_S, MAX_OUTPUT, Probe

LOGIN_S = 5.0
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETTINGS = ("/etc/default/locale", "/etc/locale.conf", "/etc/environment")
"""The machine's own, as PAM reads them for who comes in over SSH."""
NOT_KEPT = ("_", "SHLVL", "PWD", "OLDPWD")
"""The shell's own, true only in it."""
_SETTING = re.compile(r"""\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(["']?)(.*?)\2\s*$""")


class Login:
    """The question, under way from the start on."""

    def __init__(self) -> None:
        self._first = first_variables()
        self._token = os.urandom(12).hex()
        self._end = time.monotonic() + LOGIN_S + GIVE_UP_S + 1.0
        self._fd, answers = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._become_probe(answers)
        os.close(answers)

    def finish(self) -> Tuple[Dict[str, str], str]:
        """The variables, and what was wrong with the log-in shell ("": nothing; else the variables are those that
        every account has)."""
        answer = self._read()
        os.close(self._fd)
        try:
            found = _variables(self._token, json.loads(answer)["output"] if answer else "")
        except ValueError:
            found = {}
        if found:
            return found, ""
        said = json.loads(answer)["error"] if answer else ""
        why = f"the log-in shell of this account {said or 'ended without saying what its environment is'}"
        return {"PATH": USUAL_PATH, **self._first}, f"{why}: tasks get the usual PATH and nothing of its profile"

    def _read(self) -> bytes:
        """The probe's line; nothing when it does not come in time."""
        data = b""
        poller = select.poll()
        poller.register(self._fd, select.POLLIN)
        while not data.endswith(b"\n"):
            left = self._end - time.monotonic()
            if left <= 0 or not poller.poll(int(left * 1000) + 1):
                os.kill(self._pid, signal.SIGKILL)  # our child, not reaped before we come to our loop
                return b""
            piece = os.read(self._fd, 65536)
            if not piece:
                return b""
            data += piece
        return data

    def _become_probe(self, answers: int) -> NoReturn:
        gc.disable()
        script = (
            f"builtin printf '\\n%s\\n' {self._token}; builtin command -p env -0 | builtin command -p base64 -w 0; "
            f"builtin printf '\\n%s\\n' {self._token}"
        )
        message: Dict[str, Any] = {
            "probe_id": "",
            "argv": ["/bin/bash", "-lc", script],
            "cwd": "/",
            "env": {},
            "stdin": "",
            "timeout_s": LOGIN_S,
            "output_limit": MAX_OUTPUT,
        }
        try:
            fork.close_all_but({answers})
            Probe(message, answers, self._first).run()
        except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
            os.write(2, f"the log-in shell could not be asked: {error!r}\n".encode("utf-8", "replace"))
        os._exit(0)


def first_variables() -> Dict[str, str]:
    """What a log-in begins with: who this account is, and what the machine says to everybody."""
    found = {"LANG": "C.UTF-8"}
    for path in SETTINGS:
        found.update(_settings(path))
    uid = os.geteuid()
    try:
        account = pwd.getpwuid(uid)
    except KeyError:  # an account that no directory knows, as in a container
        return {**found, "HOME": "/", "USER": str(uid), "LOGNAME": str(uid), "SHELL": "/bin/sh"}
    shell = account.pw_shell or "/bin/sh"
    return {**found, "HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name, "SHELL": shell}


def _settings(path: str) -> Dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines: List[str] = file.read().splitlines()
    except OSError:
        return {}
    matches = (_SETTING.match(line) for line in lines)
    return {match.group(1): match.group(3) for match in matches if match}


def _variables(token: str, output: str) -> Dict[str, str]:
    """What stands between the two tokens. Raises ValueError."""
    pieces = output.split(f"\n{token}\n")
    if len(pieces) < 3:  # noqa: PLR2004  (before, between and behind the two)
        return {}
    found: Dict[str, str] = {}
    for entry in base64.b64decode("".join(pieces[1].split()), validate=True).split(b"\0"):
        name, is_one, value = os.fsdecode(entry).partition("=")
        if is_one and name not in NOT_KEPT and not name.startswith("MUSTER_"):
            found[name] = value
    return found
