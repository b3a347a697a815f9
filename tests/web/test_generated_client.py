"""A client that a public generator makes of the OpenAPI document, as others would: it submits a task, reads its log."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from master.edited_files.ownership import user_name
from master.verbs.documents import OPENAPI, ROOT
from tests.system.lab import Lab
from tests.waiting import until
from tests.web.console import Console

NAME = "made_of_openapi"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One with a user of the account that the master runs in."""
    made = Lab(tmp_path_factory.mktemp("made") / "lab", nodes=1)
    made.start()
    with made.client() as owner:
        owner.people.add(user_name(os.geteuid()), role="admin")
    yield made
    assert made.close() == []


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Its package, made without a word of complaint."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "config.json").write_text(json.dumps({"post_hooks": []}), encoding="ascii")
    done = subprocess.run(
        [sys.executable, "-m", "openapi_python_client", "generate", "--path", str(ROOT / OPENAPI), "--meta", "none",
         "--output-path", str(folder / NAME), "--config", str(folder / "config.json"), "--fail-on-warning"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, "WARNING" in done.stdout) == (0, False), done.stdout + done.stderr
    sys.path.insert(0, str(folder))
    yield folder / NAME
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def module(name: str) -> Any:
    """A module of what was made; its types are nobody's that is checked."""
    made: ModuleType = importlib.import_module(f"{NAME}.{name}")
    return made


@pytest.mark.usefixtures("generated")
def test_it_submits_a_task_follows_it_and_reads_its_log(lab: Lab, console: Console) -> None:
    with lab.client() as owner:
        token = owner.people.new_token(user_name(os.geteuid()))["token"]
    how = {"base_url": console.url, "token": token, "verify_ssl": console.trust()}
    with module("client").AuthenticatedClient(**how) as client:
        body = module("models").TasksPostBody(command=["echo", "七 gulls"], name="made of the document")
        submitted = module("api.task.tasks_post").sync(client=client, body=body)
        task_get, task_log = module("api.task.task_get"), module("api.http.task_log")
        until("it has ended", lambda: task_get.sync(submitted.id, client=client).state == "succeeded")
        log = task_log.sync(submitted.id, client=client, range_="bytes=0-99").payload.read().decode()
        assert log.startswith("七 gulls\n")
        refused = task_get.sync(10**6, client=client)
        assert (refused.code, refused.key) == ("not_found", "no_task")
