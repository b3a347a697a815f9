"""Why a client does not reach the master, or does not talk to the program that answers in its place."""

from __future__ import annotations

CONNECTION: dict[str, str] = {
    # The connection.
    "master_unreachable": "the master at {at} cannot be reached ({detail}); is it up? (`muster up`)",
    "master_lost": "the master at {at} cannot be reached ({detail}); it may or may not have done what was asked",
    "connection_closed": "the master closed the connection",
    "connection_not_wanted": "the connection is not needed any more",
    "connection_not_open": "the connection is not open",
    "answer_too_late": "no answer in time",
    "not_all_ended": "the tasks have not all ended in time",
    "watch_broke": "the connection to the master at {at} broke ({detail}); try again",
    "master_told_nothing": "the master did not tell of its nodes and tasks within {seconds:.0f} s: try again",
    "no_host_name": "this is not the name of a host",
    "proxy_refuses_user": "the proxy {proxy} refuses the user and the password in --proxy",
    "proxy_away": "the proxy {proxy} cannot be reached: {detail}",
    "proxy_fails": "the proxy {proxy} cannot connect to the master: {detail}",
    "request_too_large": "the request has {mib} MiB; the master takes {most} MiB: split it",
    "bytes_not_utf8": "{where}: {text} is not UTF-8: write it as UTF-8, or rename what has this name",
    # Another program than the master.
    "no_master_at": "the program that answers at {at} is not a Muster master: check host and port",
    "no_master_there": "the program that answers there is not a Muster master",
    "answer_not_understood": (
        "the program that answers at {at} is no Muster master, or one of another version: in its answer to {verb}, "
        "{fault}"
    ),
    "answer_unreadable": "what the program at {at} answers cannot be read ({detail})",
    "value_too_deep": "{where} is nested too deep",
    "value_of_kind": "{where} is {found}, not {kinds: or }",
    "value_lacks": "{where} has no {key}",
    "value_too_short": "{where} is too short",
    "value_out_of_range": "{where} is a number out of range",
    "value_unusable": "something cannot be used ({detail})",
    # The master of another lab.
    "lab_differs": (
        "the master at {at} is of another lab ({theirs}), not that of {ours}: nothing was asked of it. `{way}` uses "
        "that lab; for this one change the ports in its conf.json (socket_info) and start it (`muster up`)"
    ),
    "lab_differs_held": (
        "the master at {at} is of another lab ({holder}), not that of {ours}: nothing was asked of it. For this one "
        "change the ports in its conf.json (socket_info) and start it (`muster up`)"
    ),
    "lab_differs_unseen": (
        "the master at {at} is of another lab, not that of {ours}: nothing was asked of it. For this one change the "
        "ports in its conf.json (socket_info) and start it (`muster up`)"
    ),
    "copy_of_lab": "{conf} (a copy of {original} that no master was started for yet)",
    # The account that has the master's port.
    "other_end_unknown": (
        "the kernel does not tell which account answers at {at}, as with a container's published port, so nothing is "
        "sent there in plain text: leave out plain:// (or `tls: off` in conf.json), so that the connection is encrypted"
    ),
    "port_of_another": (
        "port {port} of this machine is held by {holder}, and not by the master's account ({account}), so nothing is "
        "sent there: is the master down? If it runs as another account by now, {again}"
    ),
    "log_in_anew": "`muster logout`, and log in anew",
    "account_at_next_start": "its next start says so beside conf.json",
    "port_of_somebody": (
        "port {port} of this machine is held by {holder}, and {why}. So nothing is sent there: is the master down? If "
        "that is its account, --conf FILE tells it, or `muster login`, or MUSTER_MASTER_UID={uid}"
    ),
    "no_account_said": "nothing here says which account is right",
    "account_in_doubt": "nothing says which account is right: {why}",
    "others_can_write_it": "others can write it",
    "others_can_write_in": "others can write in {path}",
    "names_no_account": "it names no account",
    "names_another_account": "it belongs to uid {owner} and names uid {uid}",
    # Encryption.
    "not_encrypted": (
        "the connection to {host} is not encrypted: {why}. Leave out plain://, or use an encrypted way (ssh -L, or a "
        "VPN that ends on this machine)"
    ),
    "token_of_tls": "the token is that of a log-in over TLS, and is not sent in plain text",
    "secrets_not_sent": "neither password nor token is sent over it",
    "only_status_asked": "no more than its status is asked over it",
    "master_without_log_ins": "this master knows no log-ins: leave out --token and MUSTER_TOKEN",
    "not_called_in_plain": (
        "the authority of {at} is known here, so it is not called in plain text: leave out {plain}"
    ),
    "fingerprint_in_plain": (
        "--ca-fingerprint: {at} is called in plain text, which shows no authority: leave out one of the two"
    ),
    "no_fingerprint": "--ca-fingerprint: {found!r} is not a fingerprint: sha256: and 64 hex digits",
    "speaks_no_tls": (
        "it does not speak TLS ({detail}), so it is not the master, or somebody stands in between: nothing was sent"
    ),
    "authority_unknown": (
        "the server at {at} shows an authority that is not known here: {shown}. If `muster status` on its machine "
        "tells the same, say --ca-fingerprint {shown} once (or set {variable})"
    ),
    "authority_is_another": (
        "the certificate authority at {at} is {shown}, not {before}, so nothing was sent: if `muster status` on the "
        "master's machine shows the same, run this once with --ca-fingerprint {shown}"
    ),
    "authority_is_not_that": (
        "the certificate authority at {at} is not {before}, so nothing was sent: if `muster status` on the master's "
        "machine shows the new one, run this once with --ca-fingerprint SHA256"
    ),
    "as_given": "{what} as given",
    "as_before": "{what} as before",
    "authority_in": "the one in {path}",
    "certificate_expired": (
        "the server at {at} shows an expired certificate: replace it there, unless the clock here is wrong"
    ),
    "certificate_not_yet_valid": (
        "the server at {at} shows a certificate that is not valid yet: check the clock of this machine"
    ),
    "certificate_for_other_names": (
        "the server at {at} shows a certificate for other names: call the master by one of the names in it"
    ),
    # The folder of the account.
    "no_home": "this account has no home folder: set HOME to a folder of yours",
    "home_missing": "there is no such folder, and it is not made: set HOME",
    "folder_of_another": "it belongs to uid {uid}, not to you: set HOME",
}
