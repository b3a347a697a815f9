"""The verbs about conf.json and the registry, as `conf` of `client.api.Client`: read, replaced, put back."""

from __future__ import annotations

from client.answers import clear_errors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from client.caller import Caller
    from client.shapes import FileText, FileWritten, KeptFile


@clear_errors
class ConfFiles:
    """The calls of a Client about the two files, for admins; `name` is `conf` or `registry`.

    A change replaces the `version` that was read and no other: raises ConflictError if somebody else has written
    meanwhile. `dry_run` only checks the change. `password`: the caller's own; ForbiddenError says when it is
    required."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def read(self, name: str = "conf") -> FileText:
        """The file as it lies on the disk, with a mark in the place of each secret."""
        file: FileText = self._caller.call("conf.read", {"name": name})
        return file

    def write(
        self, name: str, text: str, version: str, *, dry_run: bool = False, password: str | None = None
    ) -> FileWritten:
        """Put this whole text in its place; a mark stays the secret that it stands for."""
        return self._write({"name": name, "text": text, "version": version}, dry_run=dry_run, password=password)

    def kept(self, name: str = "conf") -> list[KeptFile]:
        """The earlier versions, the newest first."""
        found: list[KeptFile] = self._caller.call("conf.kept", {"name": name})
        return found

    def restore(
        self, name: str, kept: str, version: str, *, dry_run: bool = False, password: str | None = None
    ) -> FileWritten:
        """Put an earlier version back, by the name that `kept` tells."""
        return self._write({"name": name, "kept": kept, "version": version}, dry_run=dry_run, password=password)

    def _write(self, params: dict[str, Any], *, dry_run: bool, password: str | None) -> FileWritten:
        shown = {} if password is None else {"password": password}
        made: FileWritten = self._caller.call("conf.write", {**params, "dry_run": dry_run, **shown}, repeatable=False)
        return made
