"""`muster up` starts the console where conf.json has one, `muster down` ends it, and `muster web` runs it alone."""

from __future__ import annotations

import json
import os
import signal

import httpx

from tests.ports import free_ports
from tests.system.lab import Lab
from tests.waiting import until


def test_up_starts_it_starts_one_that_was_killed_anew_and_down_ends_it(lab_of_one: Lab) -> None:
    lab = lab_of_one
    [port] = free_ports(1)
    lab.write_conf(web={"port": port})
    lock = lab.task_info / "web.lock"

    def is_there() -> bool:
        try:
            return httpx.get(f"http://localhost:{port}/session").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    up = lab.muster("up", "--detach")
    assert (up.returncode, up.stderr) == (0, "")
    assert is_there()
    link = json.loads(lab.muster("users", "add", "ann", "--links", "--json").stdout)["link"]
    told = json.loads(lab.muster("users", "link", "ann", "--json").stdout)
    assert told["url"] == f"https://127.0.0.1:{port}/#link={told['link']}" != link
    assert told["url"].partition("=")[0] in lab.muster("users", "link", "ann").stdout.splitlines()[1]
    status = json.loads(lab.muster("status", "--json").stdout)
    assert (status["console"], status["web"]["pid"]) == (f"https://127.0.0.1:{port}/", int(lock.read_text("ascii")))
    assert f"console  https://127.0.0.1:{port}/, pid " in lab.muster("status").stdout
    again = lab.muster("up", "--detach")
    assert (again.returncode, again.stderr.partition(" a master runs")[0]) == (1, "error: conflict:")
    os.kill(int(lock.read_text(encoding="ascii")), signal.SIGKILL)
    until("it is gone", lambda: not is_there())
    gone = "it does not run (its log ends: "
    assert gone.removeprefix("it ") in lab.muster("status").stdout
    assert gone in lab.muster("node", "doctor").stdout
    assert "the console did not, and was started" in lab.muster("up").stdout
    assert is_there()
    assert lab.muster("down").returncode == 0
    assert not is_there()


def test_what_is_wrong_with_it_is_told_and_the_master_runs_on(lab_of_one: Lab) -> None:
    lab = lab_of_one
    [port] = free_ports(1)
    lab.write_conf(web={"port": port, "tls": {"cert": "nowhere.pem", "key": "nowhere.key"}})
    up = lab.muster("up", "--detach")
    assert up.returncode == 0
    assert "there is no console: error: config:" in up.stderr
    assert "nowhere.pem" in up.stderr
    assert json.loads(lab.muster("status", "--json").stdout)["pid"]
    assert lab.muster("down").returncode == 0


def test_it_says_what_it_lacks(lab_of_one: Lab) -> None:
    alone = lab_of_one.muster("web")
    assert (alone.returncode, alone.stderr.count("\n")) == (1, 1)
    assert 'web: missing; {"port": 8443} is enough' in alone.stderr
