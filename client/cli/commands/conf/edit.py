"""Change conf.json or the registry: in an editor, or by the text of a file. The difference is shown, and asked about;
what another wrote meanwhile is not overwritten. The registry and the settings of conf.json hold at once, its other
keys from the next start of the master."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile

from client.cli.arguments import conf_changes
from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from client.cli.context import Context
    from client.shapes import FileText

EXAMPLES = """examples:
  muster conf edit
  muster conf edit registry --from nodes.json --dry-run
  jq '.privacy = "own"' conf.json | muster conf edit --from - --yes"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    conf_changes.add_file(parser)
    parser.add_argument("--from", dest="source", metavar="FILE", help="its new text (`-`: stdin), without an editor")
    conf_changes.add(parser)


def run(context: Context) -> int:
    """Do it."""
    options = context.options
    file = context.client.conf.read(options.file)
    text = _edited(file) if options.source is None else _read(options.source)
    if text is None:
        context.note("nothing was changed")
        return 1
    version = options.version or file["version"]

    def write(*, dry_run: bool, password: str | None) -> conf_changes.Written:
        return context.client.conf.write(options.file, text, version, dry_run=dry_run, password=password)

    return conf_changes.make(context, write)


def _read(source: str) -> str:
    """Raises BadRequestError for what is no text, OSError."""
    with open(0 if source == "-" else source, "rb", closefd=source != "-") as file:
        data = file.read()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        from wire.message import Message

        raise coded_error("bad_request", "in_file", path=source, fault=Message("not_utf8")) from None


def _edited(file: FileText) -> str | None:
    """Return the edited text; None if it was not changed. Raises BadRequestError without an editor."""
    if not sys.stdin.isatty():
        raise coded_error("bad_request", "editor_needs_terminal")
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="muster-conf-") as folder:
        path = os.path.join(folder, f"{file['name']}.json")
        with open(path, "w", encoding="utf-8") as written:
            written.write(file["text"])
        try:
            code = subprocess.call([*shlex.split(editor), path])
        except OSError as error:
            raise coded_error("bad_request", "editor_not_started", editor=editor, detail=error.strerror) from None
        if code:
            raise coded_error("bad_request", "editor_failed", editor=editor, code=code)
        text = _read(path)
    return None if text == file["text"] else text
