"""The log-ins that `muster login` keeps: one file a master, mode 0600, with the token that stands for the log-in.

Owns the files (`~/.config/muster/logins`) and who may have access to them. Asks no master.
"""

from __future__ import annotations

import json
import os

from client import own_folder
from client.refusals import file_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_END = ".json"
_UNCOVERED = ("plain://", "localhost:", "127.", "::1:")
_MINE, _CLOSED, _UNCHANGED = 0o600, 0o077, 0o022


class Login:
    """A log-in. `name`: the master's, as `client.address.Address.name`; it is found again at `master`
    (HOST:PORT, `plain://` included), or by the file `conf`. `until`: it ends then (seconds since the epoch). `proxy`:
    the SOCKS proxy that it was made through, or empty; `account`: the uid that held the port on this machine then;
    `tls`: it came over TLS, and its token goes into no plain text."""

    def __init__(
        self,
        name: str,
        token: str,
        *,
        user: str,
        until: float,
        master: str,
        conf: str | None = None,
        proxy: str = "",
        account: int | None = None,
        tls: bool | None = None,
    ) -> None:
        self.name = name
        self.token = token
        self.user = user
        self.until = until
        self.master = master
        self.conf = conf
        self.proxy = proxy
        self.account = account
        # Where the address tells it, it stands nowhere else: versions that do not know `tls` take the log-in, too.
        self.tls = tls if tls is not None else not master.startswith(_UNCOVERED)

    def kept(self) -> dict[str, Any]:
        """Return the content of the file. Versions that do not know `tls` refuse a file with it, because they would
        ignore it."""
        said = {key: value for key, value in vars(self).items() if value is not None and key != "tls"}
        return {**said, "tls": True} if self.tls and self.master.startswith(_UNCOVERED) else said


class Logins:
    """Those of a folder; it need not be there yet."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def of(self, name: str, *, closed: bool = True) -> Login | None:
        """The log-in at a master, if there is one. Raises ConfigError for a file that others can change, or read,
        unless it need not be `closed` to them."""
        return self._read(self._path(name), _CLOSED if closed else _UNCHANGED)

    def last(self) -> Login | None:
        """The newest log-in, to be found again: its token is not to be used, for others may have read it. Raises
        ConfigError."""
        try:
            found = [entry for entry in os.scandir(self._folder) if entry.name.endswith(_END)]
            newest = max(found, key=lambda entry: entry.stat().st_mtime_ns, default=None)
        except OSError as error:
            raise _fault(self._folder, error) from None
        return None if newest is None else self._read(newest.path, _UNCHANGED)

    def over_tls(self) -> frozenset[str]:
        """The tokens that came over TLS, at whichever master: one may be given by hand at another address, too. Raises
        ConfigError."""
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(_END)]
        except OSError as error:
            raise _fault(self._folder, error) from None
        found = map(self._read_if_whole, names)
        return frozenset(login.token for login in found if login is not None and login.tls)

    def keep(self, login: Login) -> None:
        """Remember a log-in in the place of the one before at this master. Raises ConfigError."""
        path = self._path(login.name)
        draft = f"{path}.{os.getpid()}.new"
        try:
            own_folder.make(self._folder)
            try:
                with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MINE), "w", encoding="utf-8") as file:
                    json.dump(login.kept(), file)
                os.replace(draft, path)
            finally:
                if os.path.exists(draft):
                    os.unlink(draft)
        except OSError as error:
            raise _fault(error.filename or path, error) from None

    def forget(self, name: str) -> bool:
        """Remember the log-in at this master no more; whether there was one. Raises ConfigError."""
        try:
            os.unlink(self._path(name))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _fault(self._path(name), error) from None
        return True

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name.replace("/", "%2F") + _END)

    def _read_if_whole(self, name: str) -> Login | None:
        try:
            return self._read(os.path.join(self._folder, name), _UNCHANGED)
        except Exception as error:
            if getattr(error, "code", "") != "config":
                raise
            return None  # it is told to whoever uses it

    def _read(self, path: str, forbidden: int) -> Login | None:
        try:
            with open(path, encoding="utf-8") as file:
                _check_closed(path, os.fstat(file.fileno()), forbidden)
                kept: dict[str, Any] = json.load(file)
            return Login(**kept)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _fault(path, error) from None
        except (ValueError, TypeError):
            raise file_error(path, "login_unreadable") from None


def _check_closed(path: str, state: os.stat_result, forbidden: int) -> None:
    """Raise ConfigError unless the file is the user's own and its mode gives others none of what is `forbidden`."""
    if state.st_uid != os.geteuid():
        raise file_error(path, "login_of_another", uid=state.st_uid)
    if state.st_mode & forbidden:
        raise file_error(path, "login_open", mode=f"{state.st_mode & 0o777:o}")


def _fault(path: str, error: OSError) -> Exception:
    return file_error(path, "login_refused", detail=error.strerror)
