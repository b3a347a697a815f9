"""The verbs `file.…`: see `master.verbs.table`."""

from __future__ import annotations

from master.files.jail import Entry, Listing, Piece
from master.files.tree import Tally
from master.files.upload import Begun
from master.verbs import files
from master.verbs.base import Done, Nothing, Verb
from master.verbs.files import Received, UploadPiece

VERBS: dict[str, Verb] = {
    "file.roots": Verb(Nothing, files.Roots, files.roots, "viewer", "files", "none", repeatable=True),
    "file.list": Verb(files.List, Listing, files.list_folder, "viewer", "files", "none", repeatable=True),
    "file.stat": Verb(files.One, Entry, files.stat, "viewer", "files", "none", repeatable=True),
    "file.read": Verb(files.Read, Piece, files.read, "viewer", "files", "none", repeatable=True),
    "file.write": Verb(files.Write, files.Written, files.write, "user", "files", "none"),
    "file.make": Verb(files.Make, Done, files.make, "user", "files", "none"),
    "file.move": Verb(files.Transfer, Done, files.move, "user", "files", "none"),
    "file.copy": Verb(files.Transfer, Tally, files.copy, "user", "files", "none"),
    "file.delete": Verb(files.Delete, files.Deleted, files.delete, "user", "files", "none"),
    "file.upload_begin": Verb(files.UploadBegin, Begun, files.upload_begin, "user", "files", "none"),
    "file.upload_piece": Verb(
        UploadPiece, Received, files.upload_piece, "user", "files", "none", repeatable=True, quiet=True
    ),
    "file.upload_commit": Verb(files.UploadCommit, Entry, files.upload_commit, "user", "files", "none"),
    "file.upload_cancel": Verb(files.UploadCancel, Done, files.upload_cancel, "user", "files", "none"),
}
