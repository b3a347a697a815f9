"""Whatever somebody writes where others read it acts on no terminal, and looks like no line that it is not.

Every answer that there is gets text of an attacker wherever a text can stand, whoever could have written it: a user, a
task, a node, an agent. Every command is then typed, and `top` is looked at. What tasks and files hold is given as it is
by `logs` and `files cat`, which is what they are for.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import time
import unicodedata
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from client.address import Address
from client.cli.commands import COMMANDS
from client.cli.main import main
from client.text.cells import text_of
from client.top import frame
from master.verbs.documents import OPENAPI, ROOT
from tests.cases import each_case
from tests.client.fake_master import FakeMaster, Refusal, Verb, task
from tests.client.test_top_app import opened
from tests.client.top_cluster import gpu, node, running, sample, sampled, state_of
from tests.client.top_screen import Screen
from tests.master.in_process import DEADLINE_S
from tests.master.verbs.answers import every_answer
from tests.waiting import run_story

MARK = "rm -rf ~"
POISON = (
    "\x1b]0;owned\x07\x1b[2J\x1b[1;1H\r\x08\x7f\x9b31m\u202e\u2066\u200f\u200b\ufeff\u2028\u2029\U000e0041"
    f"\n{MARK}\nerror: {MARK}\n"
)
"""A title, a cleared screen, a colour by C1, a way back, directions, what cannot be seen, lines of its own."""
ACTS = {"Cc", "Cf", "Co", "Cn", "Zl", "Zp"}
OURS = {"data", "rest", "content", "upload", "token", "sha256", "drained", "link", "authority"}
"""Keys whose values are base64, or whose form is the master's own."""
FREE = {"labels", "variables", "licences"}
"""Keys whose values have keys that somebody chose."""


def _words(value: Any) -> Iterator[str]:
    """The words that the document says a value may be."""
    if isinstance(value, dict):
        yield from (word for word in value.get("enum", ()) if isinstance(word, str))
        for one in value.values():
            yield from _words(one)
    elif isinstance(value, list):
        for one in value:
            yield from _words(one)


WORDS = frozenset(_words(json.loads((ROOT / OPENAPI).read_text(encoding="utf-8")))) | {"group", "project", "cluster"}


def poisoned(value: Any, key: str = "") -> Any:
    """The same, with the attacker's text in every text that is none of a few words."""
    if isinstance(value, dict):
        tail = POISON if key in FREE else ""
        return {f"{name}{tail}": poisoned(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [poisoned(one, key) for one in value]
    return value + POISON if isinstance(value, str) and value not in WORDS and key not in OURS else value


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of each verb the longest of its answers."""
    folder = tmp_path_factory.mktemp("answers")
    found: dict[str, Any] = {}
    for answer in run_story(every_answer(folder), 2 * DEADLINE_S):
        if len(json.dumps(answer.answered)) >= len(json.dumps(found.setdefault(answer.verb, {}))):
            found[answer.verb] = answer.answered
    for one in found["setting.list"]:
        one["name"] = one["meaning"] = next(iter(WORDS))  # the master's own words, and nobody else's
    found["clock.accept"] |= {"ended": 1, "users": ["ann"], "tasks": [1]}
    return {**found, "task.submit": {"id": 3}}


Run = Callable[..., str]


@pytest.fixture
def run(answers: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> Iterator[Run]:
    """Type a command at a master that gives such answers, or refuses everything in such words; what is printed."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    for name in ("MUSTER_TOKEN", "MUSTER_MASTER", "MUSTER_CONF"):
        monkeypatch.delenv(name, raising=False)
    refuses = False

    def answer(verb: str, params: dict[str, Any]) -> Any:
        if refuses:
            raise Refusal("conflict", f"no{POISON}")
        if verb == "task.list" and params.get("ids"):  # `wait`, which ends when they have ended
            ended = task(1, "failed", reason="exit code 1", exit_code=1, ended_at=time.time())
            return poisoned({"tasks": [ended], "total": 1})
        return poisoned(answers[verb])

    verbs: dict[str, Verb] = {verb: partial(answer, verb) for verb in answers}
    verbs["server.info"] = lambda _params: {**poisoned(INFO), "version": "0"}
    with FakeMaster(verbs) as master:
        conf = master.conf(tmp_path)

        def typed(*words: str, tty: bool = True, refused: bool = False) -> str:
            nonlocal refuses
            refuses = refused
            capfd.readouterr()
            with monkeypatch.context() as at:
                at.setattr(type(sys.stdout), "isatty", lambda _stream: tty, raising=False)
                main([words[0], "--conf", conf, *words[1:]])
            out, err = capfd.readouterr()
            return f"{out}{err}"

        yield typed


INFO = {
    "version": "0", "pid": 1, "started_at": 0.0, "conf": "/c", "task_info": "/t", "root": "/r", "visible_folders": [],
    "bind": "::", "ports": {}, "desktop_ports": None, "registry_fault": "no node a", "protocol": 1, "user": "ann",
    "tls": {"mode": "own", "authority": "sha256:1", "ends": None, "problems": [{"text": "old", "level": "bad"}]},
    "store_fault": "it is full", "compaction_fault": "no room", "unsaved": [1], "warned": [1], "tasks": {"waiting": 1},
    "ids_fault": "it is closed",
    "damage": [{"at": 0.0, "what": "a line is lost"}], "clock": [{"text": "it is behind"}],
}  # fmt: skip
OVERWRITTEN = "\r\x1b[K"
"""What clears a line that said how far something is."""
TYPED: dict[str, list[tuple[str, ...]]] = {
    "status": [("status",)],
    "clock": [("clock", "accept")],
    "submit": [("submit", "--hold", "--", "true")],
    "queue": [("queue", "--all")],
    "show": [("show", "1"), ("show", "1", "2")],
    "why": [("why", "1")],
    "diff": [("diff", "1", "2"), ("diff", "1")],
    "wait": [("wait", "1")],
    "cancel": [("cancel", "1", "2")],
    "retry": [("retry", "1")],
    "rm": [("rm", "1")],
    "edit": [("edit", "1", "name=x")],
    "move": [("move", "1", "1")],
    "hold": [("hold", "1")],
    "release": [("release", "1")],
    "start": [("start", "1")],
    "pause": [("pause", "1")],
    "resume": [("resume", "1")],
    "nodes": [("nodes",)],
    "node": [
        ("node", "show", "a"),
        ("node", "drain", "a", "--reason", "x"),
        ("node", "resume", "a"),
        ("node", "rm", "a"),
        ("node", "edit", "a", "ip=10.0.0.1"),
        ("node", "doctor", "a"),
        ("node", "lost", "a", "--yes"),
        ("node", "trust", "a"),
        ("node", "list"),
    ],
    "agents": [("agents", "stop", "a"), ("agents", "start", "a"), ("agents", "restart", "a")],
    "set": [("set",)],
    "conf": [("conf", "kept", "conf")],
    "files": [
        ("files", "roots"),
        ("files", "ls", "-la", "data"),
        ("files", "rm", "data/x"),
        ("files", "mv", "data/x", "data/y"),
        ("files", "cp", "data/x", "data/y"),
        ("files", "mkdir", "data/x"),
    ],
    "env": [("env", "list"), ("env", "check", "base"), ("env", "packages", "base"), ("env", "cuda", "base")],
    "whoami": [("whoami",)],
    "users": [("users", "list"), ("users", "enable", "ann"), ("users", "disable", "ann"), ("users", "link", "ann")],
    "groups": [("groups", "list"), ("groups", "add", "x"), ("groups", "edit", "x", "--add", "ann")],
    "projects": [("projects", "list"), ("projects", "edit", "x", "group=vision")],
    "tokens": [("tokens", "list"), ("tokens", "revoke", "1")],
    "audit": [("audit",)],
    "api": [("api", "task.list"), ("api", "node.list")],
    "alloc": [("alloc", "list"), ("alloc", "release", "1"), ("alloc", "exp", "--gpus", "1", "--no-wait")],
}
ELSEWHERE = {
    "init": "asks no master",
    "up": "starts one",
    "down": "ends one, whose pid it knows",
    "deploy": "asks no master",
    "web": "runs a console, which tells browsers",
    "shell": "is a shell",
    "login": "is told in a test of its own",
    "logout": "tells what this PC keeps",
    "completion": "asks no master",
    "logs": "gives what was written",
    "run": "likewise",
    "top": "is looked at below",
}


def test_every_command_is_typed_or_tells_nothing_of_others() -> None:
    assert TYPED.keys() | ELSEWHERE.keys() == COMMANDS.keys()


def check_nothing_acts(printed: str) -> None:
    acting = {char for char in printed.replace(OVERWRITTEN, "") if unicodedata.category(char) in ACTS and char != "\n"}
    assert not acting, f"{acting!r} in {printed!r}"


def check(printed: str) -> None:
    """Nothing in it acts on a terminal, and no line of it is the attacker's."""
    check_nothing_acts(printed)
    assert not [line for line in printed.splitlines() if line.startswith((MARK, f"error: {MARK}"))], printed


def test_no_command_lets_what_others_wrote_act_on_a_terminal(run: Run) -> None:
    with each_case() as cases:
        for words in (one for many in TYPED.values() for one in many):
            with cases.case(" ".join(words)):
                check_command(run, words)


def check_command(run: Run, words: tuple[str, ...]) -> None:
    check(run(*words))
    if words[0] != "api":  # what it prints is JSON
        check(run(*words, tty=False))
    check(run(*words, "--json"))
    told = run(*words, refused=True)
    assert "owned" in told, "it was asked, and refused in such words"
    check(told)


def test_a_configuration_is_shown_line_by_line_and_nothing_in_it_acts(run: Run) -> None:
    check_nothing_acts(run("conf", "show", "conf"))


# -- top --------------------------------------------------------------------------------------------------------------


MARKUP = "[@click=app.quit][red]x[/red]"
"""What the program behind `top` could take for its own."""


def cluster() -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Nodes, tasks and a sample, all written by the attacker where somebody could write; names stay apart."""
    foreign = [{"pid": 7, "user": "eve", "name": "miner", "used_mib": 1}]
    gpus = [gpu(0, held_by=[1]), gpu(1, health="used by eve", foreign=foreign)]
    nodes = [node("alpha", gpus, tasks=[1], reason="fan"), node("beta", 1, state="unreachable", reason="dark")]
    tasks = [
        running(1, "alpha", [0], name=f"bert{MARKUP}", warning="idle", project="p"),
        task(2, name="wait", reason="needs a GPU"),
        task(3, "failed", name="bad", reason="exit", ended_at=time.time()),
    ]
    return (
        poisoned(nodes),
        poisoned(tasks),
        poisoned(sample("alpha", sampled(0, 5.0, 1, fault="ecc"), sampled(1, 5.0, 1))),
    )


def test_the_picture_of_the_cluster_that_is_printed_once_lets_nothing_act() -> None:
    nodes, tasks, said = cluster()
    state = state_of(nodes, tasks, said)
    for room in (80, 200):
        lines = frame.frame(state, "10.0.0.1", room, time.time(), "ada")
        check("".join(text_of(line) + "\n" for line in lines))


LOGGED = f"{POISON}{MARKUP}".replace("\n", "").encode() + b"\n"


def read_log(params: dict[str, Any]) -> dict[str, Any]:
    """A log full of it; lines it may have."""
    rest = LOGGED[:-1]
    size = len(LOGGED) + len(rest)
    if not params.get("collapse"):
        return {"data": "", "offset": 0, "size": size, "ended": True, "path": ""}
    data, told = (base64.b64encode(one).decode() for one in (LOGGED[max(0, params["offset"]) :], rest))
    piece = {"data": data, "rest": told, "next": len(LOGGED), "size": size, "offset": params["offset"]}
    return {**piece, "ended": True, "path": ""}


def test_top_lets_nothing_act_in_its_lists_pages_questions_and_errors(answers: dict[str, Any]) -> None:
    nodes, tasks, said = cluster()

    def refused(_params: dict[str, Any]) -> Any:
        raise Refusal("conflict", f"no{POISON}{MARKUP}")

    verbs: dict[str, Verb] = {verb: partial(lambda verb, _params: poisoned(answers[verb]), verb) for verb in answers}
    verbs |= {"task.cancel": refused, "log.read": read_log}

    async def looks(screen: Screen, *keys: str, at: str) -> None:
        await screen.press(*keys)
        await screen.shows(at)
        check(screen.text())

    async def story(master: FakeMaster) -> None:
        for size in ((80, 24), (200, 50)):
            async with opened(size, Address("127.0.0.1", master.port)) as screen:
                screen.told("nodes", nodes)
                screen.told("tasks", tasks)
                screen.told("node.sample", said)
                await looks(screen, at="wait")
                await looks(screen, "e", at="bad")
                await looks(screen, "w", at="task 2")
                await looks(screen, "q", "s", at="command")
                await looks(screen, "q", "c", at="Cancel task 1")
                assert MARKUP in screen.text() or size[0] < len(MARKUP) * 4
                await looks(screen, "y", at="conflict")
                await looks(screen, "l", at="log of task 1")
                await looks(screen, at=MARKUP)
                await looks(screen, "q", "tab", "s", at="reached by")
                await looks(screen, "q", "w", at="fan")
                await looks(screen, "q", "down", "down", "w", at="used by eve")

    with FakeMaster(verbs) as master:
        asyncio.run(story(master))
