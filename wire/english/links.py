"""Why there is no way to a node, or no longer: what its link says."""

from __future__ import annotations

LINKS: dict[str, str] = {
    # The end of a connection with an agent.
    "agent_closed": "the agent closed the connection",
    "agent_reads_nothing": "the agent reads nothing: more than {mib} MiB wait to be sent to it",
    "agent_silent": "the agent said nothing for {seconds:.0f} s",
    "link_broke": "the connection broke: {said}",
    "agent_unreadable": "the agent sent something unreadable: {said}",
    "link_defect": "connecting met a defect of Muster ({said}); the server log has the details",
    "agent_refuses_us": "its agent refuses us ({code}): {said}",
    "agent_refuses_us_in": "its agent refuses us ({code}): {said}; its folder is {folder}",
    "agent_stopped_start": "its agent was stopped by {by}: `muster agents start {name:quoted}`",
    "nobody_answers": "nobody answers",
    # A shell on a node.
    "no_such_node_in": "there is no node {node!r} in {path}; there are {nodes:list or none}",
    "no_shell_there": (
        "node {node} dials in by itself (driver {driver!r}): there is no way to a shell. Log in to its machine directly"
    ),
    "tasks_elsewhere": (
        "{address} is not where tasks {tasks:few} were started ({before}): put that back until they have ended, "
        "or give them up with `muster node lost {name:quoted}`"
    ),
    "tasks_in_other_folder": (
        "its agent has another state folder than that in which tasks {tasks:few} were started, and the machine has not "
        "restarted since: put the folder back, or give them up with `muster node lost {name:quoted}`"
    ),
    "attempts_unaccounted": (
        "its agent cannot look after {count} attempt{count:|s} that ran there: see its log, or give their tasks up "
        "with `muster node lost {name:quoted}`"
    ),
    # Starting an agent.
    "agent_not_answering": "the agent was started and does not answer; see {log}",
    "agent_not_started": "the agent cannot be started: {said}",
    "agent_not_started_mute": "the agent cannot be started: it said nothing",
    "agent_not_started_in_time": "the agent did not start within {seconds:.0f} s",
    "agent_not_heard": ("its agent has not been heard from for {seconds:.0f} s; it dials in: does it run there?"),
    "dial_in_without_tls": "its agent dials in over TLS, which {path} turns off: `tls`",
    "python_unquotable": ("`python` is {python!r}: such a path cannot be given to every shell; use a plain one"),
    "python_too_old": (
        "`{python}` on the node is Python {version}; the agent needs 3.8 or newer: set `python` in the registry"
    ),
    "python_not_there": ("no `{python}` on the node: install Python 3.8 or newer, or set `python` in the registry"),
    "agent_not_put": "the agent cannot be put on the node: {said}",
    "no_command_run": "{where} runs no command for us: {said}",
    "ended_before_agent": "the connection ended before the agent answered",
    "shell_endless": "the node's log-in shell prints without end: {said}",
    "shell_becomes_another": (
        "the node's log-in shell becomes another one instead of starting `{python}`: does its .bashrc or .profile "
        "`exec` a shell? It may do so on a terminal only"
    ),
    "shell_ended": (
        "the node's log-in shell ended with {status} before the agent came: does its .bashrc or .profile exit?"
    ),
    "shell_waits": (
        "the node's log-in shell does not come to our command within {seconds:.0f} s: does its .bashrc or .profile "
        "wait for something, or `exec` another shell?"
    ),
    "shell_waits_saying": (
        "the node's log-in shell does not come to our command within {seconds:.0f} s: does its .bashrc or .profile "
        "wait for something, or `exec` another shell? It says: {said}"
    ),
    # Connecting.
    "connection_refused": "{peer} refuses the connection: does sshd run there, on this `port`?",
    "proxy_refuses": "{peer} refuses the connection: does a SOCKS proxy run there, on this port?",
    "machine_off": "{peer} cannot be reached: is the machine on?",
    "no_route": "{peer} cannot be reached: there is no route to its network",
    "no_answer_in_time": ("{peer} does not answer within {seconds:.0f} s: is the machine on, and no firewall between?"),
    "not_reached": "{peer} cannot be reached: {said}",
    "name_not_found": "{name} cannot be looked up: {said} (`ip` in the registry)",
    "name_impossible": "{name} cannot be looked up: no host can have it (`ip` in the registry)",
    "ip_misspelt": "`ip` is {ip}; it may hold only a host name or an address: set `{changes}` for this node",
    "name_for_the_proxy": "{why}; with `socks5h://` the proxy looks it up",
    "by_proxy": "the proxy {proxy}",
    "through_proxy": "{where} through the proxy {proxy}",
    "proxy_asked": "the proxy {proxy}, asked for {where},",
    "proxy_log_in": "the proxy {proxy} refuses the user and the password of `proxy`",
    "proxy_not_through": "the proxy {proxy} cannot reach {where}: {said}",
    # The machine's key.
    "sshd_mute": "{where} takes the connection and then says nothing: it is frozen, overloaded, or no sshd",
    "sshd_ends": "{where} ends the connection at once: too many log-ins at a time, or no sshd",
    "key_exchange_failed": "{where}: the key exchange failed: {said}",
    "key_exchange_ended": "{where}: the key exchange failed: the connection ended",
    "host_key_revoked": "{where} shows a host key that is marked as revoked: {key}",
    "host_key_unknown": "the host key of {where} is not known: {key}; if that is its key, {cure}",
    "host_key_changed": (
        "the host key of {where} has changed: it shows {key}, known is {known} ({place}); if the machine was set up "
        "anew, {cure}, else somebody may be in between"
    ),
    "correct_host_key": "correct `host_key` in the registry",
    "trust_host_key": "`muster node trust {name:quoted}`",
    # The log-in.
    "no_credential": (
        "there is neither a key nor a password for this node: set `key_file` in the registry, or write the password "
        "into {path} (mode 0600)"
    ),
    "key_file_relative": "key_file {path}: write the whole path, or one that begins with ~/",
    "key_file_unreadable": "key_file {path} cannot be read: {said}",
    "key_file_without_key": "key_file {path} holds no private key (is it the public half?)",
    "key_file_open": "key_file {path} may be read by others: `chmod 600 {path}`",
    "key_file_of_another": (
        "key_file {path} belongs to {owner}, who could put another key there: `chown {ours} {path}`"
    ),
    "key_file_encrypted": (
        "key_file {path} is encrypted: nobody is there to type its passphrase; `ssh-keygen -p -f {path}` takes it off"
    ),
    "key_file_unusable": "key_file {path} is no usable key: {said}",
    "log_in_stopped": "{where} stopped answering during the log-in",
    "log_in_ended": "{where} (as {user}) ended the connection during the log-in",
    "log_in_failed": "{where} (as {user}): the log-in failed: {said}",
    "log_in_without_password": "{where} (as {user}) takes no log-in with a password, only {allowed:, }: set `key_file`",
    "log_in_without_key": (
        "{where} (as {user}) takes no log-in with a key, only {allowed:, }: take `key_file` out of the registry, and "
        "write the password into {path}"
    ),
    "log_in_more_proofs": "{where} (as {user}) wants more than one proof: {missing:, }; Muster has only one",
    "log_in_more_questions": (
        "{where} (as {user}) asks for more than the password ({asked:, }), and Muster answers one question: use "
        "`key_file`"
    ),
    "no_session": (
        "{where} accepts the log-in (as {user}) and opens no session ({said}): set `MaxSessions` in its sshd_config to "
        "1 or more, and reload sshd"
    ),
    "key_refused": ("{where} (as {user}) refuses the key {path}: add its public half to ~/.ssh/authorized_keys there"),
    "password_refused": "{where} (as {user}) refuses the password: correct it in {path}, or use `key_file`",
}
