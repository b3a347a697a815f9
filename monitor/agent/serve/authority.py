"""The authority that this agent obeys: one master and its descendants, remembered on disk before they are welcomed.

A master's epoch rises when it starts; a copied folder has the same history and another incarnation from then on. So
an incarnation that was obeyed must stand in the lineage of whoever commands next.
"""

from __future__ import annotations

from typing import Any, List, Optional, Tuple

from ..folder import Folder, FolderError

FILE = "master.json"


class Authority:
    """The master obeyed last: `epoch` 0 and `incarnation` "" before the first."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self.epoch = 0
        self.incarnation = ""
        known = folder.read_json(FILE)
        if known is None:
            return
        try:
            self.epoch, self.incarnation = int(known["epoch"]), str(known["incarnation"])
        except (KeyError, TypeError, ValueError):
            raise FolderError(f"{folder.path}/{FILE} names no epoch and incarnation; remove it to obey any") from None

    def objection(self, epoch: int, incarnation: str, lineage: List[List[Any]]) -> Optional[str]:
        """Why this master may not command; None if it may."""
        if not self.incarnation or (epoch, incarnation) == (self.epoch, self.incarnation):
            return None
        obeyed = f"this agent obeys epoch {self.epoch} of {self.incarnation}"
        if epoch < self.epoch:
            return f"{obeyed}; epoch {epoch} is older"
        if epoch == self.epoch:
            return f"{obeyed}; {incarnation} has the same epoch, as from a copied folder"
        pairs: List[Tuple[int, str]] = [(int(pair[0]), str(pair[1])) for pair in lineage] or [(epoch, incarnation)]
        if (self.epoch, self.incarnation) in pairs or self.epoch < pairs[0][0]:
            return None
        return f"{obeyed}, which is no ancestor of {incarnation}, as from a copied folder"

    def obey(self, epoch: int, incarnation: str) -> None:
        """Remember, synced. Raises OSError."""
        if (epoch, incarnation) != (self.epoch, self.incarnation):
            self._folder.write_json(FILE, {"epoch": epoch, "incarnation": incarnation})
            self.epoch, self.incarnation = epoch, incarnation
