"""The log-in to a node over a connected socket: key exchange, the host's key, ours or a password. It blocks.

Owns the settings of paramiko and the meaning of each of its failures for an admin. A failure leaves nothing behind: no
thread, no descriptor. paramiko's own log is kept quiet: it contains a traceback for every refused log-in.
"""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from pathlib import Path

import paramiko

from master.drivers.host_keys import HostKeys, Known, offered
from master.drivers.passwords import Passwords
from master.drivers.ssh_socket import where
from master.nodes.driver import CannotConnectError, OfferedKey, UnknownHostKeyError
from master.nodes.registry import NodeConfig
from wire.errors import ConfigError
from wire.message import Message
from wire.regular_file import read_regular

BANNER_S = 10.0
EXCHANGE_S = 15.0
AUTH_S = 20.0
CHANNEL_S = 10.0
POLL_S = 5.0
"""paramiko's thread looks this often whether it should end, where it looks 10 times a second by itself: we wake it."""
ENDING_S = 2.0
MOST_OF_QUESTION = 40
_QUESTIONS = "keyboard-interactive"
_RSA = ("rsa-sha2-512", "rsa-sha2-256")

logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)


def log_in(sock: socket.socket, node: NodeConfig, keys: HostKeys, passwords: Passwords) -> paramiko.Transport:
    """Log in; the socket is closed if that fails. Raises CannotConnectError, UnknownHostKeyError."""
    transport: paramiko.Transport | None = None
    try:
        credential = _credential(node, passwords)
        known = _known(node, keys)
        transport = _exchange(sock, node, known)
        _check(_shown(transport), known, node)
        _authenticate(transport, node, credential, passwords)
        sock.settimeout(POLL_S)
    except BaseException:
        close(transport, sock)
        raise
    return transport


def ask_key(sock: socket.socket, node: NodeConfig, known: Known) -> OfferedKey:
    """The key that the machine shows, without logging in; of several one that is known. Raises CannotConnectError."""
    transport: paramiko.Transport | None = None
    try:
        transport = _exchange(sock, node, known)
        return _shown(transport)
    finally:
        close(transport, sock)


def close(transport: paramiko.Transport | None, sock: socket.socket) -> None:
    """End both and wait for paramiko's thread."""
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)  # wakes paramiko's thread, which then closes in its own time
    if transport is not None:
        if transport.is_alive():
            transport.join(ENDING_S)
        transport.packetizer.complete_handshake()  # else its timer is a thread for 15 s after a failed handshake
        transport.close()
    sock.close()


def one_line(text: str, limit: int = 300) -> str:
    """Return another program's text as one line that fits into a message."""
    plain = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"


# -- key exchange ---------------------------------------------------------------------------------------------


def _known(node: NodeConfig, keys: HostKeys) -> Known:
    try:
        return keys.lookup(node.ip, node.port, node.host_key)
    except ConfigError as error:
        raise UnknownHostKeyError(error.args[0]) from None


def _exchange(sock: socket.socket, node: NodeConfig, known: Known) -> paramiko.Transport:
    began = time.monotonic()
    transport = paramiko.Transport(sock)
    try:
        transport.banner_timeout = BANNER_S
        transport.handshake_timeout = EXCHANGE_S
        transport.auth_timeout = AUTH_S
        transport.channel_timeout = CHANNEL_S
        _prefer(transport, known.types)
        transport.start_client(timeout=BANNER_S + EXCHANGE_S)
        transport.get_remote_server_key()  # after a time-out start_client just returns
    except Exception as error:  # noqa: BLE001  (whatever paramiko's thread met in what the other side sent)
        close(transport, sock)
        raise CannotConnectError(_exchange_failed(node, error, time.monotonic() - began)) from None
    except BaseException:
        close(transport, sock)
        raise
    return transport


def _exchange_failed(node: NodeConfig, error: Exception, lasted_s: float) -> Message:
    text = str(error)
    if lasted_s >= BANNER_S and ("banner" in text or "No existing session" in text):
        return Message("sshd_mute", where=where(node))
    if "banner" in text:
        return Message("sshd_ends", where=where(node))
    said = one_line(text)
    if not said:
        return Message("key_exchange_ended", where=where(node))
    return Message("key_exchange_failed", where=where(node), said=said)


def _prefer(transport: paramiko.Transport, types: tuple[str, ...]) -> None:
    """Ask for a key of these types first: a machine has several, and we may know one of them."""
    options = transport.get_security_options()
    wanted = [name for kind in types for name in (_RSA if kind == "ssh-rsa" else (kind,)) if name in options.key_types]
    options.key_types = (*wanted, *(name for name in options.key_types if name not in wanted))


def _shown(transport: paramiko.Transport) -> OfferedKey:
    return offered(transport.get_remote_server_key().asbytes())


def _check(shown: OfferedKey, known: Known, node: NodeConfig) -> None:
    if known.accepts(shown):
        return
    label = f"{shown.type} {shown.fingerprint}"
    cure = Message("correct_host_key") if node.host_key else Message("trust_host_key", name=node.name)
    if shown.base64 in known.revoked:
        raise UnknownHostKeyError(Message("host_key_revoked", where=where(node), key=label))
    if known.fingerprint is None:
        raise UnknownHostKeyError(Message("host_key_unknown", where=where(node), key=label, cure=cure))
    raise UnknownHostKeyError(
        Message(
            "host_key_changed",
            where=where(node),
            key=label,
            known=known.fingerprint,
            place=str(known.place),
            cure=cure,
        )
    )


# -- authentication -------------------------------------------------------------------------------------------


def _credential(node: NodeConfig, passwords: Passwords) -> paramiko.PKey | str:
    if node.key_file:
        return load_key(node.key_file)
    try:
        password = passwords.of(node)
    except ConfigError as error:
        raise CannotConnectError(error.args[0], "long") from None
    if password is None:
        raise CannotConnectError(Message("no_credential", path=str(passwords.path)), "long")
    return password


def load_key(name: str) -> paramiko.PKey:
    """The private key in a file. Raises CannotConnectError with the cure."""
    path = Path(name).expanduser()
    if not path.is_absolute():
        raise CannotConnectError(Message("key_file_relative", path=name), "long")
    try:
        mode = path.stat().st_mode
        text = read_regular(path)
    except OSError as error:
        raise CannotConnectError(Message("key_file_unreadable", path=str(path), said=error.strerror), "long") from None
    if b"PRIVATE KEY" not in text:
        raise CannotConnectError(Message("key_file_without_key", path=str(path)), "long")
    if mode & 0o077:
        raise CannotConnectError(Message("key_file_open", path=str(path)), "long")
    try:
        return paramiko.PKey.from_path(path)
    except Exception as error:  # noqa: BLE001  (cryptography has a dozen ways to say it)
        if "ncrypted" in str(error) or "assword" in str(error):
            raise CannotConnectError(Message("key_file_encrypted", path=str(path)), "long") from None
        said = one_line(str(error), 100)
        raise CannotConnectError(Message("key_file_unusable", path=str(path), said=said), "long") from None


def _authenticate(
    transport: paramiko.Transport, node: NodeConfig, credential: paramiko.PKey | str, passwords: Passwords
) -> None:
    peer, user = where(node), node.user_name
    questions: list[str] = []
    try:
        if isinstance(credential, str):
            missing = _by_password(transport, user, credential, questions)
        else:
            missing = transport.auth_publickey(user, credential)
    except paramiko.BadAuthenticationType as error:
        allowed = tuple(error.allowed_types)
        if isinstance(credential, str):
            why = Message("log_in_without_password", where=peer, user=user, allowed=allowed)
        else:
            why = Message("log_in_without_key", where=peer, user=user, allowed=allowed, path=str(passwords.path))
        raise CannotConnectError(why, "long") from None
    except Exception as error:  # noqa: BLE001  (see above)
        if not transport.is_active():
            raise CannotConnectError(Message("log_in_ended", where=peer, user=user)) from None
        if not isinstance(error, paramiko.AuthenticationException) or "timeout" in str(error):
            said = one_line(str(error))
            raise CannotConnectError(Message("log_in_failed", where=peer, user=user, said=said)) from None
        if len(asked := tuple(dict.fromkeys(questions))) > 1:
            why = Message("log_in_more_questions", where=peer, user=user, asked=asked)
            raise CannotConnectError(why, "long") from None
        raise CannotConnectError(_refused(node, passwords), "long") from None
    if missing:
        why = Message("log_in_more_proofs", where=peer, user=user, missing=tuple(missing))
        raise CannotConnectError(why, "long")


def _by_password(transport: paramiko.Transport, user: str, password: str, questions: list[str]) -> list[str]:
    """Log in with a password, also where sshd asks for it as a question (`keyboard-interactive`, PAM). `questions` gets
    what it asks. paramiko's own fallback says of a wrong password that none is taken."""
    try:
        return transport.auth_password(user, password, fallback=False)
    except paramiko.BadAuthenticationType as error:
        if _QUESTIONS not in error.allowed_types:
            raise

    def answers(_title: str, _text: str, fields: list[tuple[str, bool]]) -> list[str]:
        is_first = not questions
        questions.extend(one_line(field[0], MOST_OF_QUESTION) for field in fields)
        # A second question is not for the password: it wants a code, or a new password.
        return [password if is_first and place == 0 else "" for place in range(len(fields))]

    return transport.auth_interactive(user, answers)


def _refused(node: NodeConfig, passwords: Passwords) -> Message:
    if node.key_file:
        return Message("key_refused", where=where(node), user=node.user_name, path=node.key_file)
    return Message("password_refused", where=where(node), user=node.user_name, path=str(passwords.path))
