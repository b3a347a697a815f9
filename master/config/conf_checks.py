"""Checks of conf.json that types cannot express: each value by itself, and the message names its key."""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import msgspec

from master.config.conf_file import ConfFile, FileOwner, Hooks, Ldap
from master.config.visible_folders import GROUP, USER, PathError, check_owned, owned_parts, plain_name
from master.edited_files import json_file
from wire.console import faults
from wire.message import Message

HOOK_EXAMPLE = '["/usr/local/bin/tell", "--channel", "lab"]'
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def typed(value: Any, path: Path) -> ConfFile:
    """The keys of a conf.json, each checked by itself; `path` is for the messages. Raises ConfigError."""
    conf = json_file.convert(value, ConfFile, path)
    _check_ports(conf, path)
    _check_variables(conf.task_env, path)
    _check_networks(conf.desktop_client.networks, path)
    _check_addresses(conf.desktop_client.users, path)
    if "desktop_client.silent_s" in keys_said(value):
        _check_silence(conf, path)
    _check_visible(conf.visible_folders, path)
    if conf.ldap is not None:
        _check_ldap(conf.ldap, path)
    _check_files(conf, path)
    _check_hooks(conf.hooks, path)
    if conf.web is not None:
        for key, found, allowed in faults(conf.web):
            raise json_file.wrong(path, key, found, allowed)
    return conf


def _check_ports(conf: ConfFile, path: Path) -> None:
    ports = {f"socket_info.{name}": port for name, port in conf.socket_info.all.items()}
    if conf.desktop_client.ports is not None:
        ports |= {f"desktop_client.ports.{name}": port for name, port in conf.desktop_client.ports.all.items()}
    if conf.web is not None:
        ports["web.port"] = conf.web.port
    seen: dict[int, str] = {}
    for key, port in ports.items():
        if port in seen:
            raise json_file.wrong(path, key, port, Message("ports_that_differ", key=seen[port], port=port))
        seen[port] = key


def _check_variables(variables: Mapping[str, str], path: Path) -> None:
    for name, value in variables.items():
        if not _VARIABLE.fullmatch(name):
            raise json_file.wrong(path, "task_env", name, Message("names_of_variables"))
        if "\0" in value:
            raise json_file.wrong(path, f"task_env.{name}", value, Message("text_without_nul"))


def _check_networks(networks: tuple[str, ...], path: Path) -> None:
    for index, network in enumerate(networks):
        try:
            ipaddress.ip_network(network)
        except ValueError as error:
            allowed = Message("network_or_address", detail=str(error))
            raise json_file.wrong(path, f"desktop_client.networks[{index}]", network, allowed) from None


def _check_addresses(users: Mapping[str, str], path: Path) -> None:
    for address in users:
        try:
            ipaddress.ip_address(address)
        except ValueError as error:
            raise json_file.wrong(
                path, "desktop_client.users", address, Message("an_address", detail=str(error))
            ) from None


def _check_silence(conf: ConfFile, path: Path) -> None:
    silent_s, most = conf.desktop_client.silent_s, conf.limits.handshake_s
    if silent_s >= most:  # who is silent for that long is cut off
        allowed = Message("less_than_handshake", seconds=most)
        raise json_file.wrong(path, "desktop_client.silent_s", silent_s, allowed)


def _check_visible(names: tuple[str, ...], path: Path) -> None:
    for index, name in enumerate(names):
        try:
            plain_name(name)
        except ValueError:
            allowed = Message("folder_in_root")
            raise json_file.wrong(path, f"visible_folders[{index}]", name, allowed) from None


def _check_ldap(ldap: Ldap, path: Path) -> None:
    try:
        host, _, _ = ldap.place
        host.encode("idna")
    except ValueError as error:
        allowed = Message("ldap_url", detail=str(error))
        raise json_file.wrong(path, "ldap.url", ldap.url.rpartition("@")[2], allowed) from None
    if ldap.bind.count("{user}") != 1 or set("{}") & set(ldap.bind.replace("{user}", "")) or ldap.bind == "{user}":
        allowed = Message("ldap_bind", placeholder=USER, example="uid={user},ou=people,dc=lab")
        raise json_file.wrong(path, "ldap.bind", ldap.bind, allowed)
    if ldap.ca is not None and "\0" in ldap.ca:
        raise json_file.wrong(path, "ldap.ca", ldap.ca, Message("path_without_nul"))


def _check_files(conf: ConfFile, path: Path) -> None:
    seen: dict[str, str] = {}
    for prefix, kind in conf.files.items():
        if kind not in get_args(FileOwner):
            allowed = Message("one_of_texts", texts=tuple(f'"{one}"' for one in get_args(FileOwner)))
            raise json_file.wrong(path, f"files.{prefix}", kind, allowed)
        try:
            check_owned(prefix, kind, conf.visible_folders)
        except PathError as error:
            raise json_file.wrong(path, f"files.{prefix}", prefix, error.allowed) from None
        same = "/".join(owned_parts(prefix)).replace(GROUP, USER)
        if same in seen:
            allowed = Message("paths_of_other_folders", other=seen[same])
            raise json_file.wrong(path, f"files.{prefix}", prefix, allowed)
        seen[same] = prefix


def _check_hooks(hooks: Hooks, path: Path) -> None:
    for key, words in msgspec.structs.asdict(hooks).items():
        if words is None:
            continue
        if isinstance(words, str) or not words or not words[0].startswith("/") or any("\0" in word for word in words):
            allowed = Message("hook_program", example=HOOK_EXAMPLE)
            raise json_file.wrong(path, f"hooks.{key}", words, allowed)


def keys_said(value: Any) -> frozenset[str]:
    """The keys that the file says; `a.b` is b in the object a."""
    inner = (f"{key}.{inner}" for key in value if isinstance(value[key], dict) for inner in value[key])
    return frozenset((*value, *inner))
