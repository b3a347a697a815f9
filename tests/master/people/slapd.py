"""A real OpenLDAP server in a folder of its own, with the people and the certificate that a test gives it."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

from tests.certificates import Made
from tests.ports import free_ports
from tests.rights import need_program
from tests.waiting import NeverError, until

BIND = "uid={user},ou=people,dc=lab"
_SCHEMA = Path("/etc/ldap/schema")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_CONF = """
include {schema}/core.schema
include {schema}/cosine.schema
include {schema}/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {folder}/slapd.pid
argsfile {folder}/slapd.args
{allowed}
{tls}
database mdb
maxsize 10485760
directory {folder}/data
suffix "dc=lab"
rootdn "cn=admin,dc=lab"
"""
_TLS = """
TLSCertificateFile {folder}/cert.pem
TLSCertificateKeyFile {folder}/key.pem
TLSCACertificateFile {folder}/ca.pem
"""
_ENTRIES = """
dn: dc=lab
objectClass: dcObject
objectClass: organization
dc: lab
o: Lab

dn: ou=people,dc=lab
objectClass: organizationalUnit
ou: people
"""
_PERSON = """
dn: uid={dn},ou=people,dc=lab
objectClass: inetOrgPerson
uid: {uid}
cn: {uid}
sn: {uid}
"""


class Slapd:
    """A server of the people `people` (as they stand in a DN: their passwords; None for one who has none)."""

    def __init__(
        self,
        folder: Path,
        people: dict[str, str | None],
        shown: Made | None,
        signer: Made | None = None,
        *,
        takes_empty: bool = False,
    ) -> None:
        need_program("slapd", "slapd")
        (folder / "data").mkdir(parents=True)
        self.folder = folder
        self.plain_port, self.tls_port = free_ports(2)
        for name, made in (("cert", shown), ("ca", signer or shown)):
            if made is not None:
                (folder / f"{name}.pem").write_bytes(made.pem)
        if shown is not None:
            (folder / "key.pem").write_bytes(shown.key_pem)
        text = _CONF.format(
            schema=_SCHEMA,
            folder=folder,
            tls=_TLS.format(folder=folder) if shown is not None else "",
            allowed="allow bind_anon_dn bind_anon_cred" if takes_empty else "",
        )
        (folder / "slapd.conf").write_text(text, encoding="utf-8")
        self._fill(people)
        self._has_tls = shown is not None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def ca(self) -> Path:
        return self.folder / "ca.pem"

    @property
    def ldaps(self) -> str:
        return f"ldaps://127.0.0.1:{self.tls_port}"

    @property
    def ldap(self) -> str:
        return f"ldap://127.0.0.1:{self.plain_port}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        urls = f"{self.ldap}/ {self.ldaps}/" if self._has_tls else f"{self.ldap}/"
        # In its debug mode, and that only, it stays a child of ours.
        command = ["slapd", "-d", "0", "-h", urls, "-f", str(self.folder / "slapd.conf")]
        with (self.folder / "out").open("ab") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                             env={"PATH": _PATH})  # fmt: skip
        until("slapd listens", self._listens)

    def stop(self) -> None:
        """End it and wait; what it knows stays."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def _fill(self, people: dict[str, str | None]) -> None:
        entries = [_ENTRIES]
        for dn, password in people.items():
            person = _PERSON.format(dn=dn, uid=dn.replace("\\", ""))
            entries.append(person if password is None else f"{person}userPassword: {password}\n")
        done = subprocess.run(
            ["slapadd", "-f", str(self.folder / "slapd.conf")],
            input="".join(entries), capture_output=True, text=True, timeout=60, check=False, env={"PATH": _PATH},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def _listens(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise NeverError((self.folder / "out").read_text(encoding="utf-8", errors="replace")[-2000:])
        try:
            socket.create_connection(("127.0.0.1", self.plain_port), 10).close()
        except OSError:
            return False
        return True
