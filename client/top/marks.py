"""How the use that a GPU is put to is drawn in one column, and what that means."""

from __future__ import annotations

from client.live.gpus import ASIDE, AWAY, FREE, HELD, OTHERS

MARKS = {HELD: "#", FREE: "·", OTHERS: "~", ASIDE: "!", AWAY: "?"}
KINDS = {HELD: "good", FREE: "info", OTHERS: "warn", ASIDE: "bad", AWAY: "dim"}
MEANINGS = {
    HELD: "held by a task",
    FREE: "free",
    OTHERS: "used by somebody else",
    ASIDE: "set aside or kept back: the line says why",
    AWAY: "not known: its node is away",
}
LEGEND = " ".join(MARKS[use] + use for use in (HELD, FREE, OTHERS, ASIDE))
