"""Faults of conf.json, of the registry, and of the files that they name."""

from __future__ import annotations

CONFIGURATION: dict[str, str] = {
    "in_file": "{path}: {fault}",
    "hook_fails": (
        "{hook} has failed since {since:moment}: its events wait, and the oldest are lost to it if there are too many. "
        "The master's log tells why (`muster logs --server`)"
    ),
    "hook_refuses": (
        "{hook} refuses for good what it is given, since {since:moment}: {count} {count:event is|events are} lost to "
        "it. The master's log tells why (`muster logs --server`)"
    ),
    # Any file.
    "file_missing": "there is no such file; {cure}",
    "file_unreadable": "cannot be read: {detail}",
    "not_utf8": "not UTF-8: save it as that; `iconv -f GB18030 -t UTF-8` does it for what Windows wrote in Chinese",
    "not_utf8_at": (
        "line {line}: not UTF-8: save it as that; `iconv -f GB18030 -t UTF-8` does it for what Windows wrote in Chinese"
    ),
    "not_json_at": "line {line}, column {column}: not JSON: {detail}",
    "json_comment_at": "line {line}, column {column}: not JSON: {detail} (JSON has no comments)",
    "json_refused": "{detail}",
    "folder_cannot_be_made": "{key}: the folder {folder} cannot be made: {detail}",
    "task_info_of_another": (
        "task_info: {folder} belongs to {owner}, who could let commands run as {ours}. Move it away, or if that is "
        "meant: chown {ours} it"
    ),
    "no_list_of_nodes": "expected a list of nodes {example}, found something else",
    "registry_planted": (
        "it belongs to {owner}, in a folder where everybody may write: nodes would be that account's word. Write one "
        "of your own, or move conf.json and it into a folder of yours"
    ),
    "nodes_run_as_us": (
        "desktop_client.networks lets in {networks:, }, who show no password, and tasks on "
        "{nodes:node|the nodes} {nodes:, } run as {accounts: or }, who can do there what the master can: they could "
        "read its keys and command it. Let them run as another account of this machine (in the registry "
        '`"driver": "ssh", "ip": "127.0.0.1", "user_name": OTHER`), or take the node out of the registry, or leave '
        "only this machine in `desktop_client.networks`, or accept it with `desktop_client.local_nodes`: `allow`"
    ),
    # The ways to a file that is missing.
    "init_writes_conf": "`muster init` writes one that works on this machine",
    "init_writes_registry": (
        "`muster init` writes one with this machine in it; conf.json's `slaver_file` says where it lies"
    ),
    "give_old_folder": "give the old system's folder",
    "slaver_file_says": "conf.json's `slaver_file` says where it lies",
    "named_as_ldap_ca": "{path} names it as `ldap.ca`",
    # Allowed values of a key, and values that are wrong.
    "a_number": "a number",
    "a_text": "a text in quotes",
    "true_or_false": "true or false",
    "an_object": "an object {{…}}",
    "a_list": "a list […]",
    "of_length": "{what} of length {bound}",
    "within_bound": "{what} {bound}",
    "name_of_user": "the name of a user",
    "not_shown": "something else (not shown)",
    "with_entries": "{what} with {count} entries",
    "ports_that_differ": "ports that all differ ({key} is {port} already)",
    "names_of_variables": "names of letters, digits and _, not beginning with a digit",
    "text_without_nul": "a text without NUL",
    "path_without_nul": "a path without NUL",
    "network_or_address": "a network like 192.168.36.0/24 or an address ({detail})",
    "an_address": "an address ({detail})",
    "less_than_handshake": "less than the {seconds:number} s of limits.handshake_s",
    "folder_in_root": 'a folder in `root`, like "data" (for one elsewhere make a link to it in `root`)',
    "ldap_url": "`ldaps://HOST`, or `ldap://HOST`, which is asked for TLS before it hears anything: {detail}",
    "ldap_bind": 'the name of a user there, with {placeholder} in its place once, like "{example}"',
    "one_of_texts": "{texts: or }",
    "paths_of_other_folders": "paths of which each means other folders ({other} means these already)",
    "path_from_visible_folder": "a path that begins with a visible folder and not with `/`",
    "path_of_names": "a path of names, without `..`",
    "placeholder_as_name": "{user} or {group} as a whole name, not {found}",
    "path_with_placeholder": "a path with {placeholder} in it, once, for `{kind}`",
    "path_in_visible_folders": "a path in one of visible_folders ({folders:, })",
    "path_in_no_visible_folder": "a path in one of visible_folders (there are none)",
    "hook_program": "the absolute path of a program and its arguments, like {example} (no shell reads it)",
    "folder_that_exists": "a folder that exists (tasks run in it)",
    "path_of_known_user": "a path; there is no such user",
    "bind_of_console": "an address of this machine, or 0.0.0.0 or :: for all of them",
    "host_of_console": "a name like queue.lab.example or an address, without a scheme and without a port",
    "proxy_of_console": "an address, or a network like 10.0.0.0/24 ({detail})",
    "names_of_users": "names of users: small letters, digits, - and _",
    "account_not_root": "an account of the node, and not root: an agent of root's needs no others",
    "path_of_key": "the path of a private key",
    "node_name_free": "a name that no other node has (entry {entry} has it)",
    "node_name": "1 to 64 characters without , / < >, not beginning with - or a blank",
    "as_many_as_gpus": "as many entries as gpu_count says: {count}, not {found}",
    "entry_for_ssh": "an entry: the driver `ssh` needs it to log in",
    "one_plain_word": "one word without blanks, not beginning with -",
    "path_of_python": "the path of a Python on the node",
    "host_key_text": "SHA256:… or a key as in a known_hosts file, without the host (ssh-ed25519 AAAA…)",
    "no_accounts_here": "none: they are for nodes that are reached by ssh as somebody who is not root",
    "address_for_exports": "an address or a host name that /etc/exports can hold too",
    "socks_proxy": "socks5://[USER:PASSWORD@]HOST:PORT",
    # Files with secrets, and other files of the master.
    "conf_itself": "conf.json itself",
    "key_of_node": "{key} of node {node}",
    "secret_open": "{key}: it is a secret, and others may read this file: `chmod 600 {path}`",
    "token_open": (
        "{key}: it is a secret, and others may read this file: `chmod 600 {path}`, or keep it in a file of its own, "
        'mode 0600, and write "token": "file:PATH"'
    ),
    "file_not_seen": "cannot be looked at: {detail}",
    "own_files_visible": (
        "visible_folders: {folder} and {path} ({key}) lie one in the other, and there are other users: they could read "
        "and change what is the master's. Move {path} out of {above}, or name folders that do not hold it"
    ),
    "own_files_visible_outside": (
        "visible_folders: {folder} and {path} ({key}) lie one in the other, and desktop_client.networks lets in "
        "{networks:, }, who show no password: they could read and change what is the master's. Move {path} out of "
        "{above}, or name folders that do not hold it, or leave only this machine in `desktop_client.networks`"
    ),
    "own_log_group": "log_group: `privacy` is `own`, and the group {group} may read all logs. Leave the key out",
    "own_logs_visible": (
        "visible_folders: `privacy` is `own`, and {folder} and {logs} lie one in the other. Move train_log_path out of "
        "it"
    ),
    "own_logs_open": (
        "train_log_path: `privacy` is `own`, and everybody may look into {folder}. Close it: chmod o-r {folder}"
    ),
    "own_logs_of_group": (
        "train_log_path: `privacy` is `own`, and the group {group} may read the logs in {folder}. Give it to a group "
        "that is the master's alone: chgrp"
    ),
    "own_log_open": (
        "train_log_path: `privacy` is `own`, and everybody may read {log}. Close the existing logs: chmod o-rwx "
        "{folder}/*.log"
    ),
    "own_networks": (
        "desktop_client.networks[{index}]: `privacy` is `own`, and {network} lets in whoever sits at an address that "
        "desktop_client.users does not name, as {user}. Name single addresses (10.0.0.7/32), each of them in `users`, "
        "or none at all"
    ),
    "log_group_unknown": (
        "log_group: found {group!r}, expected a group of this machine (`getent group`): one of the account that the "
        "desktop PCs use over ssh"
    ),
    "log_group_refused": (
        "log_group: {folder} cannot be given to the group {group}: {detail}. The folder must be {ours}'s, and {ours} a "
        "member of the group: `sudo usermod -aG {group} {ours}`, then log in anew"
    ),
    "log_group_not_kept": (
        "log_group: {folder} cannot be given to the group {group}: its setgid bit does not stay. The folder must be "
        "{ours}'s, and {ours} a member of the group: `sudo usermod -aG {group} {ours}`, then log in anew"
    ),
    # The start of the master.
    "folders_overlap": (
        "files: {folder} really is, or lies in, {other}, so what `files` says of one could be got round by the other: "
        "name one of them in visible_folders"
    ),
    "port_held": (
        "{key}: cannot listen on {place}: {detail}: it is held by {holder}. Stop that or choose another port"
    ),
    "port_held_unseen": (
        "{key}: cannot listen on {place}: {detail}: it is held by something that the kernel does not show here "
        "(`ss -ltnp` as root may). Stop that or choose another port"
    ),
    "port_of_root": "{key}: cannot listen on {place}: {detail}. Choose a port of 1024 or more",
    "port_refused": "{key}: cannot listen on {place}: {detail}. Is `bind` an address of this machine?",
    "no_conf_named": "no configuration is named: --conf FILE (or `muster up`, which finds yours)",
    "server_log_refused": "server_log_path: {path} cannot be written: {detail}",
    "news_log_refused": "server_log_path: {path} beside it cannot be written: {detail}",
    "conf_planted": "it belongs to {owner}, in a folder where everybody may write",
    "task_info_shared": (
        "task_info: {folder} is the state folder of another lab, {other}: two labs cannot share it. Name another "
        "folder in task_info, or, if this lab is to go on with that queue, stop the other master and remove {other}"
    ),
    "task_info_in_use": (
        "task_info: {folder} is the state folder of another lab, {other}, whose master (pid {pid}) works there: two "
        "labs cannot share it. Name another folder in task_info, or, if this lab is to go on with that queue, stop the "
        "other master and remove {other}"
    ),
    # Certificates, passwords and host keys.
    "tls_faults": "tls: {faults:; }",
    "certificate_unusable": "the certificate cannot be used: {detail}",
    "certificate_unmakable": (
        "the master's certificate cannot be read or made ({detail}). Put the folder back from a copy, or remove it: a "
        "new authority is made then, which clients and agents must be told to trust"
    ),
    "certificate_unreadable": "the master's certificate cannot be read: {detail}",
    "ldap_ca_without_certificate": (
        "ldap.ca: {path} holds no certificate in PEM: put that of the authority there which signed the directory's own"
    ),
    "passwords_open": "{path} holds passwords and others may read it: `chmod 600 {path}`",
    "passwords_unreadable": "the passwords in {path} cannot be read: {detail}",
    "passwords_not_utf8": "it holds characters that are not UTF-8: write it as UTF-8",
    "passwords_ambiguous": (
        "its only line may be the password of all, or NAME:PASSWORD of one: begin it with `*:` if it is for all, else "
        "write a line `# passwords` above it"
    ),
    "passwords_line": (
        "line {line} is not `NAME:PASSWORD` in a file of several lines (NAME: a node, a user, or * for all others)"
    ),
    "host_key_wrong": (
        "the registry's host_key is {found!r}, expected `SHA256:…` (as `ssh-keygen -l` prints it) or `TYPE BASE64` (as "
        "in a known_hosts file)"
    ),
    "host_keys_unreadable": "the known host keys in {path} cannot be read: {detail}",
    # The console, and the writer of samples.
    "service_token_unreadable": "{detail}: did the master start with this version?",
    "console_held": (
        "{path}: another console runs for this lab: leave it as it is, or end it first (`muster down` ends it with the "
        "master)"
    ),
    "web_missing": "web: missing; {example} is enough",
    "web_wrong": "web: {detail}",
    "web_pair_refused": "web.tls: {cert} and {key}: {detail}",
    "web_port_refused": "web.port: {place} cannot be listened at: {detail}",
    "web_port_held": (
        "web.port: {place} cannot be listened at: {detail}; it is held by {holder}: stop that, or choose another port"
    ),
    "web_certificate_unmakable": (
        "the console's certificate cannot be read or made ({detail}). Put the folder back from a copy, or remove it: a "
        "new authority is made then, which people install anew"
    ),
    "influx_missing": "influx: missing; {example} is the least that it needs",
    "influx_no_object": "influx: an object is expected, found {found}",
    "influx_no_text": "influx.{key}: a text is expected, found {found}",
    "influx_version": "influx.version: 1 or 2 is expected, found {found}",
    "influx_token_of_1": ("influx.token: for InfluxDB 1 it is USER:PASSWORD, or empty where it asks for none"),
    "influx_token_line": "influx.token: one line is expected, of ASCII alone for InfluxDB 2",
    "influx_token_open": (
        "influx.token: others may read this file, and so the token: chmod 600 {path}, or keep it in a file of its own, "
        'mode 0600, and write "token": "file:PATH"'
    ),
    "influx_token_refused": "influx.token: {path}: {detail}",
    "influx_url_with_user": "influx.url: user and password belong into influx.token, as USER:PASSWORD",
    "influx_url": "influx.url: http://HOST:PORT or https://HOST:PORT is expected, found {found!r}",
    "influx_lock_refused": "task_info: {path}: {detail}",
    "influx_lock_held": (
        "pid {pid} writes to InfluxDB for this lab already ({path}): leave it as it is, or end it first (`kill {pid}`)"
    ),
    "influx_lock_held_unseen": (
        "another process writes to InfluxDB for this lab already ({path}): leave it as it is, or end it first"
    ),
    "token_readable": "others may read this token: chmod 600 {path}",
    "token_not_text": "not a token: it is no text",
    "task_info_no_path": "task_info: a path is expected, found {found}",
}
