"""The SSH accounts of users, as conf.json and the registry name them: what is taken, where keys lie, what no key is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from master.config.config import load_config
from master.config.ssh_accounts import SshAccount, key_fault
from master.nodes.registry import NodeConfig, parse_registry
from tests.faults import fault_in, part, refused, wrong
from wire.message import Message

PORTS = {"monitor_port": 1, "data_port": 2, "train_state_port": 3}
NODE = {"name": "gpu1", "ip": "10.0.0.1", "user_name": "lab", "gpu_count": 1}
LI = {"user_name": "li2", "key_file": "keys/li"}


def config(folder: Path, accounts: Any) -> Any:
    (folder / "conf.json").write_text(json.dumps({"socket_info": PORTS, "accounts": accounts}), encoding="utf-8")
    return load_config(folder / "conf.json").accounts


def node(folder: Path, accounts: Any, **more: Any) -> NodeConfig:
    return parse_registry([{**NODE, "accounts": accounts, **more}], folder / "nodes.json")[0]


@pytest.mark.parametrize("read", [config, lambda folder, accounts: node(folder, accounts).accounts])
@pytest.mark.parametrize(("said", "meant"), [("keys/li", "{}/keys/li"), ("/etc/k", "/etc/k"), ("~/k", "/root/k")])
def test_a_key_lies_where_the_file_that_names_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Any, said: str, meant: str
) -> None:
    monkeypatch.setenv("HOME", "/root")
    found = read(tmp_path, {"li": {**LI, "key_file": said}})
    assert found == {"li": SshAccount("li2", meant.format(tmp_path))}


@pytest.mark.parametrize("read", [config, lambda folder, accounts: node(folder, accounts).accounts])
@pytest.mark.parametrize(
    ("accounts", "said"),
    [
        ({"Li Na": LI}, wrong("", found='"Li Na"', expected=Message("names_of_users"))),
        ({"li": {**LI, "user_name": "root"}}, wrong("", found='"root"', expected=Message("account_not_root"))),
        (
            {"li": {**LI, "user_name": "-oProxyCommand=x"}},
            wrong("", found='"-oProxyCommand=x"', expected=Message("account_not_root")),
        ),
        ({"li": {**LI, "key_file": " "}}, wrong("", found='" "', expected=Message("path_of_key"))),
        ({"li": {"user_name": "li2"}}, Message("missing_key", key="key_file")),
        ({"li": {**LI, "password": "x"}}, Message("unknown_key", key="password")),
        (["li"], wrong("", found='["li"]')),
    ],
)
def test_what_names_no_account_is_refused_with_the_key(tmp_path: Path, read: Any, accounts: Any, said: Message) -> None:
    fault = refused(lambda: read(tmp_path, accounts)).args["fault"]
    assert isinstance(fault, Message)
    assert "accounts" in str(fault.args["where"])
    wanted = Message(said.key, **{name: value for name, value in said.args.items() if name != "where"})
    assert part(fault, wanted) == wanted


@pytest.mark.parametrize("more", [{"user_name": "root"}, {"driver": "report"}, {"driver": "local"}])
def test_where_they_would_do_nothing_they_are_refused(tmp_path: Path, more: dict[str, str]) -> None:
    said = wrong("[0] (gpu1).accounts", found='["li"]', expected=Message("no_accounts_here"))
    assert fault_in(tmp_path / "nodes.json", lambda: node(tmp_path, {"li": LI}, **more)) == said


def test_those_of_the_lab_hold_on_all_nodes_where_they_can_and_the_entry_goes_before_them(tmp_path: Path) -> None:
    lab = config(tmp_path, {"li": LI, "wang": {"user_name": "wang", "key_file": "keys/wang"}})
    here = node(tmp_path, {"li": {"user_name": "lab", "key_file": "other"}}).with_accounts(lab)
    assert here.spec().accounts == (("li", ""), ("wang", "wang"))  # the node's own account needs no other agent
    plain = parse_registry([NODE], tmp_path / "nodes.json")[0]
    assert plain.spec().accounts is None
    assert plain.with_accounts(lab).spec().accounts == (("li", "li2"), ("wang", "wang"))
    for change in ({"user_name": "root"}, {"driver": "report"}, {"driver": "local"}):
        other = parse_registry([{**NODE, **change}], tmp_path / "nodes.json")[0]
        assert other.with_accounts(lab) is other


@pytest.mark.parametrize(
    ("mode", "said"), [(0o600, None), (0o400, None), (0o640, "chmod 600"), (0o604, "chmod 600"), (0o610, "chmod 600")]
)
def test_a_key_that_others_may_read_is_none(tmp_path: Path, mode: int, said: str | None) -> None:
    key = tmp_path / "key"
    key.touch()
    key.chmod(mode)
    fault = key_fault(str(key))
    assert (fault is None) if said is None else (said in str(fault))


def test_a_key_of_another_s_or_that_is_no_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o700)
    assert "No such file" in str(key_fault(str(tmp_path / "none")))
    assert key_fault(str(tmp_path)) is not None
    key = tmp_path / "key"
    key.touch(0o600)
    if os.geteuid() == 0:
        os.chown(key, 4711, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert "belongs to" in str(key_fault(str(key)))
