"""The environment that a task begins with: the one that a log-in of its account on this machine gives, and nobody
else's.

Asked once for an account, of the agent's own when it starts: `bash -lc env` from an environment that holds the account
and the machine's own settings only. So a site's proxies, modules and CUDA are there, and what the person had exported
who happened to start the master, or a node's agent, is not. It owns the question and what stands in for an answer that
does not come; the process that runs the shell is `probe`'s, which becomes the account, and ends whatever the shell left
behind. The output of the shell is never more than data to us.
"""

from __future__ import annotations

import base64
import gc
import json
import os
import re
import select
import signal
import time
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from wire import account

from .. import fork, tree
from .probe import GIVE_UP_S, MAX_OUTPUT, Probe

LOGIN_S = 5.0
USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SETTINGS = ("/etc/default/locale", "/etc/locale.conf", "/etc/environment")
"""The machine's own, as PAM reads them for who comes in over SSH."""
USUAL_UMASK = 0o022
PERSONAL = ("HOME", "USER", "LOGNAME", "SHELL")
NOT_KEPT = ("_", "SHLVL", "PWD", "OLDPWD")
"""The shell's own, true only in it."""
_SETTING = re.compile(r"""\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(["']?)(.*?)\2\s*$""")


class Answer(NamedTuple):
    """The result of a log-in. `fault`: what was wrong with the shell ("": nothing; else the variables are those that
    every account has, and of another's not even these). `refusal`: why nothing can run as that account, else ""."""

    variables: Dict[str, str]
    umask: int = USUAL_UMASK
    fault: str = ""
    refusal: str = ""


class Login:
    """The question, under way from the start on. `run_as`: of that account, if it may be asked (`allowed`: see
    `account.find`); None: of the agent's own. `fd` is ready when there is something to `hear`."""

    def __init__(self, run_as: Optional[str] = None, allowed: Sequence[Any] = ()) -> None:
        self._run_as = run_as
        self._allowed = list(allowed)
        self._first = first_variables() if run_as is None else machine_variables()
        self._token = os.urandom(12).hex()
        self._said = b""
        self.end = time.monotonic() + LOGIN_S + GIVE_UP_S + 1.0
        self.fd, answers = os.pipe()
        try:
            self.pid = os.fork()
            if self.pid == 0:
                self._become_probe(answers)
        except OSError:
            os.close(self.fd)
            raise
        finally:
            os.close(answers)
        os.set_blocking(self.fd, False)

    def finish(self) -> Answer:
        """Wait for the answer."""
        poller = select.poll()
        poller.register(self.fd, select.POLLIN)
        while True:
            left = self.end - time.monotonic()
            found = self.hear() if left > 0 and poller.poll(int(left * 1000) + 1) else self.give_up()
            if found is not None:
                return found

    def hear(self) -> Optional[Answer]:
        """Read what there is: the answer once it is whole."""
        while not self._said.endswith(b"\n"):
            try:
                piece = os.read(self.fd, 65536)
            except BlockingIOError:
                return None
            if not piece:
                return self.lost()
            self._said += piece
        os.close(self.fd)
        return self._answer(json.loads(self._said))

    def give_up(self) -> Answer:
        """The answer that it is when none comes in time. The process that asks must be our child, not reaped yet."""
        tree.send(tree.descendants([self.pid], tree.everyone()), signal.SIGKILL)  # it cannot end its shell itself
        os.kill(self.pid, signal.SIGKILL)
        return self.lost()

    def lost(self) -> Answer:
        """The answer that it is when the process that asks is gone."""
        os.close(self.fd)
        return self._answer({})

    def _answer(self, said: Dict[str, Any]) -> Answer:
        if said.get("refused"):
            return Answer({}, refusal=said["error"])
        try:
            found, umask = _variables(self._token, said.get("output", ""))
        except ValueError:
            found = {}
        if found:
            return Answer(found, umask)
        whose = "this account" if self._run_as is None else self._run_as
        why = f"the log-in shell of {whose} {said.get('error') or 'ended without saying what its environment is'}"
        fault = f"{why}: tasks get the usual PATH and nothing of its profile"
        return Answer({"PATH": USUAL_PATH, **self._first}, fault=fault)

    def _become_probe(self, answers: int) -> NoReturn:
        gc.disable()
        mark = f"builtin printf '\\n%s\\n' {self._token}"
        look = "{ builtin command -p env -0 | builtin command -p base64 -w 0; } 2>/dev/null"  # a loader may complain
        script = f"{mark}; builtin umask; {mark}; {look}; {mark}"
        message: Dict[str, Any] = {
            "probe_id": "",
            "argv": ["/bin/bash", "-lc", script],
            "cwd": "/",
            "env": {},
            "stdin": "",
            "timeout_s": LOGIN_S,
            "output_limit": MAX_OUTPUT,
        }
        if self._run_as is not None:
            message.update(run_as=self._run_as, run_as_allowed=self._allowed)
        try:
            fork.close_all_but({answers})
            Probe(message, answers, self._first).run()
        except BaseException as error:  # noqa: BLE001  (this is a fork: nothing may return into the code above)
            os.write(2, f"the log-in shell could not be asked: {error!r}\n".encode("utf-8", "replace"))
        os._exit(0)


def first_variables() -> Dict[str, str]:
    """Return the variables that a log-in begins with: who this account is, and what the machine sets for everybody."""
    return {**machine_variables(), **account.own().variables()}


def machine_variables() -> Dict[str, str]:
    """The part of it that is the same for every account."""
    found = {"LANG": "C.UTF-8"}
    for path in SETTINGS:
        found.update(_settings(path))
    return {name: value for name, value in found.items() if name not in PERSONAL}


def _settings(path: str) -> Dict[str, str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines: List[str] = file.read().splitlines()
    except OSError:
        return {}
    matches = (_SETTING.match(line) for line in lines)
    return {match.group(1): match.group(3) for match in matches if match}


def _variables(token: str, output: str) -> Tuple[Dict[str, str], int]:
    """Return the umask and the variables between the tokens, in this order. Raises ValueError."""
    pieces = output.split(f"\n{token}\n")
    if len(pieces) < 4:  # noqa: PLR2004  (before, two between, and behind the three)
        return {}, USUAL_UMASK
    found: Dict[str, str] = {}
    for entry in base64.b64decode("".join(pieces[2].split()), validate=True).split(b"\0"):
        name, is_one, value = os.fsdecode(entry).partition("=")
        if is_one and name not in NOT_KEPT and not name.startswith("MUSTER_"):
            found[name] = value
    return found, int(pieces[1], 8) & 0o777
