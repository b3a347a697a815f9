"""The lab's directory (LDAP), asked whether a password is right: `ldap` of conf.json, made usable.

It says no more than that: users, their roles and their groups are Muster's, and nobody becomes one by being in the
directory. Owns which authorities are trusted, how many may ask at once, and what users and the log receive; `ldap` owns
the conversation itself.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from master.config.conf_file import Ldap
from master.config.config import Config
from master.edited_files import json_file
from master.people import ldap
from master.people.passwords import prepared
from master.people.workers import Workers
from wire.errors import DirectoryError
from wire.file_fault import fault
from wire.message import Message

log = logging.getLogger("muster.people")

ANSWER_S = 5.0
THREADS, WAITING = 8, 8


class Directory:
    """One server. `ca`: the file of the authorities to trust; None: the system's."""

    def __init__(self, conf: Ldap, ca: Path | None, conf_path: Path, *, answer_s: float = ANSWER_S) -> None:
        host, port, is_tls = conf.place
        self._url = conf.url
        self._template = conf.bind
        self._server = ldap.Server(host, port, is_tls, _context(ca, conf_path))
        self._answer_s = answer_s
        self._workers = Workers("the directory", threads=THREADS, waiting=WAITING, each_s=answer_s)
        self._trouble: str | None = None

    @classmethod
    def of(cls, config: Config) -> Directory | None:
        """As conf.json says; None where it names none. Nothing is asked yet. Raises ConfigError."""
        if config.ldap is None:
            return None
        ca = config.ldap.ca
        return cls(config.ldap, None if ca is None else config.folder / Path(ca).expanduser(), config.path)

    async def check(self, name: str, password: str) -> bool:
        """Tell whether the directory takes this password for this user. An empty one is wrong, even if a server would
        accept it. Raises DirectoryError where it does not say, LimitError where too many ask already."""
        try:
            dn = self._template.replace("{user}", ldap.escaped(name))
            dn.encode()
        except UnicodeEncodeError:
            return False  # half of a character, which no name has
        if not name or not password:
            return False
        secret, within_s = prepared(password), self._answer_s
        try:
            # Where the name server hangs, so does a thread, whatever it was told.
            async with asyncio.timeout(within_s):
                ok = await self._workers.run(lambda: ldap.bind(self._server, dn, secret, within_s))
        except (ldap.LdapError, TimeoutError) as error:
            self._tell(str(error) or f"it did not answer within {within_s:g} s")
            raise DirectoryError(Message("directory_silent")) from None
        self._tell(None)
        return ok

    def close(self) -> None:
        """Begin nothing new."""
        self._workers.close()

    def _tell(self, trouble: str | None) -> None:
        """Log the state, once for each change: otherwise attempts to log in could fill the log."""
        if trouble == self._trouble:
            return
        if trouble is None:
            log.info("the directory %s answers again", self._url)
        else:
            log.warning("the directory %s cannot say who somebody is: %s", self._url, trouble)
        self._trouble = trouble


def _context(ca: Path | None, conf: Path) -> ssl.SSLContext:
    """One that believes nobody but these authorities, and no other name than the url's. Raises ConfigError."""
    if ca is None:
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    data = json_file.read_bytes(ca, cure=Message("named_as_ldap_ca", path=str(conf)))
    try:
        context.load_verify_locations(cadata=data.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise fault(conf, Message("ldap_ca_without_certificate", path=str(ca))) from None
    return context
