"""Why the command line cannot use an address, a log-in, a token or an authority."""

from __future__ import annotations

CLIENT: dict[str, str] = {
    "conf_and_master": "conf and master: give one of them",
    "no_master_named": (
        "there is no conf.json here or in a folder above: give --conf FILE or --master HOST[:PORT] (or set MUSTER_CONF "
        "or MUSTER_MASTER), log in with `muster login HOST`, or make one with `muster init`"
    ),
    "no_conf_here": (
        "there is no conf.json here or in a folder above: give --conf FILE (or set MUSTER_CONF), or make one with "
        "`muster init`"
    ),
    "conf_not_obeyed": "{path} {why}, so what it says is not obeyed unasked: --conf {conf} obeys it",
    "conf_folder_not_obeyed": (
        "{path}, where conf.json lies, {why}, so what it says is not obeyed unasked: --conf {conf} obeys it"
    ),
    "written_by_everybody": "can be written by everybody (`chmod o-w` it, mode {mode})",
    "written_by_group": "can be written by a group (`chmod g-w` it, mode {mode})",
    "belongs_to": "belongs to {owner}",
    "path_not_ours": "{path} {why}",
    "no_host_and_port": "{found!r} is not HOST or HOST:PORT",
    "ports_missing": "socket_info: missing; it holds {ports:, }",
    "bind_no_address": "bind: an address is expected, not {found}",
    "conf_missing": "there is no such file; `muster init` makes one",
    "not_json": "not JSON: {detail}",
    "json_too_deep": "not JSON that anybody writes: it is nested too deeply",
    "object_expected": "an object is expected",
    "port_expected": "socket_info.{key}: a port from 1 to 65535 is expected, found {found}",
    "login_unreadable": "this is no log-in: remove it, and `muster login` again",
    "login_of_another": "the log-in belongs to uid {uid}, not to you, and is not used",
    "login_open": (
        "others can read the log-in (mode {mode}), so it is not used: `muster logout` ends it, `muster login` makes "
        "another (or `chmod 600` the file, if nobody has read it)"
    ),
    "login_refused": "the log-in cannot be kept or read: {detail}",
    "token_file_refused": "{variable}: {path}: {detail}; a task's token goes with its attempt",
    "token_file_wrong": "{variable}: {path}: this is no token; a task's token goes with its attempt",
    "token_file_empty": "{variable}: {path}: it is empty; a task's token goes with its attempt",
    "top_needs_textual": "`muster top` needs textual, which is not installed: pip install textual, or use --once",
    "authority_open": (
        "{why}, so the authority in {path} is not believed: somebody may have put another there. Close it to others, "
        "compare its fingerprint with what `muster status` tells on the master's machine, and say that one once "
        "(--ca-fingerprint)"
    ),
    "authority_not_kept": "the authority cannot be remembered: {detail}",
    "proxy_expected": "--proxy (or MUSTER_PROXY): {way} is expected ({remote}://: the proxy looks names up)",
}
