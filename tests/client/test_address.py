"""Finding the master."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from client.address import DEFAULT_DATA_PORT, find, parse, read_conf
from tests.faults import fault_in, refused
from wire.message import Message
from wire.regular_file import NOT_REGULAR


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("gpu1", "gpu1", DEFAULT_DATA_PORT),
        ("gpu1:9", "gpu1", 9),
        ("[::1]:9", "::1", 9),
        ("::1", "::1", DEFAULT_DATA_PORT),
    ],
)
def test_a_master_is_named_by_host_and_perhaps_port(text: str, host: str, port: int) -> None:
    address = parse(text)
    assert (address.host, address.data) == (host, port)


def test_a_conf_and_another_master_are_a_contradiction(tmp_path: Path) -> None:
    assert refused(lambda: find(str(tmp_path / "conf.json"), "gpu1")) == Message("conf_and_master")


@pytest.mark.parametrize("text", ["", "a:b", "a:0", "a:65536", ":9"])
def test_nonsense_for_a_master_is_refused(text: str) -> None:
    assert refused(lambda: parse(text)) == Message("no_host_and_port", found=text)


def test_a_conf_that_binds_everything_is_reached_over_loopback(tmp_path: Path) -> None:
    path = tmp_path / "conf.json"
    path.write_text(
        '{"bind": "0.0.0.0", "socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3, "buffer": 9}}'
    )
    address = read_conf(str(path))
    assert (address.host, address.data, address.train_state, address.monitor) == ("127.0.0.1", 2, 3, 1)
    assert address.same_machine


@pytest.mark.parametrize("way", ["option", "variable"])
def test_the_kernels_word_about_a_proxy_of_this_machine_is_none_about_the_master(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """A proxy on loopback is root's or the user's own, and connects to whomever it likes."""
    path, proxy = tmp_path / "conf.json", "socks5h://127.0.0.1:1080"
    path.write_text(
        '{"bind": "192.168.36.10", "socket_info": {"monitor_port": 1, "data_port": 2, "train_state_port": 3}}'
    )
    direct = find(str(path)).trust
    assert direct is not None
    assert direct.vouches is not None
    if way == "variable":
        monkeypatch.setenv("MUSTER_PROXY", proxy)
    address = find(str(path), proxy=proxy if way == "option" else None)
    assert address.trust is not None
    assert (address.proxy, address.trust.vouches) == (proxy, None)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[]", "object_expected"),
        ("{", "not_json"),
        ("{}", "ports_missing"),
        ('{"socket_info": {"data_port": "x"}}', "port_expected"),
    ],
)
def test_a_broken_conf_is_told_with_its_name(tmp_path: Path, text: str, key: str) -> None:
    path = tmp_path / "conf.json"
    path.write_text(text)
    assert fault_in(path, lambda: read_conf(str(path))).key == key


def test_a_conf_that_is_a_pipe_or_nested_without_end_is_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "conf.json"
    os.mkfifo(path)
    assert fault_in(path, lambda: read_conf(str(path))) == Message("file_unreadable", detail=NOT_REGULAR)
    path.unlink()
    path.write_text("[" * 100_000)
    assert fault_in(path, lambda: read_conf(str(path))) == Message("json_too_deep")


def test_without_any_hint_the_way_out_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MUSTER_CONF", raising=False)
    monkeypatch.delenv("MUSTER_MASTER", raising=False)
    assert refused(find) == Message("no_master_named")
