"""Every sentence that Muster makes for people, in English, by its key: what is said, and nothing of when.

`{value}` is the place of a value, `{value:form}` says how it is put into words (see `wire.message`). A key stays what
it is when its sentence is worded better: other languages and programs go by it.
"""

from __future__ import annotations

from wire.english.certificates import CERTIFICATES
from wire.english.client import CLIENT
from wire.english.commands import COMMANDS
from wire.english.configuration import CONFIGURATION
from wire.english.connection import CONNECTION
from wire.english.console import CONSOLE
from wire.english.doctor import DOCTOR
from wire.english.errors import ERRORS
from wire.english.files import FILES
from wire.english.links import LINKS
from wire.english.nodes import NODES
from wire.english.people import PEOPLE
from wire.english.setup import SETUP
from wire.english.store import STORE
from wire.english.tasks import ELASTIC, ENDS, PAUSES, WAITS, WARNINGS

SENTENCES: dict[str, str] = {
    **WAITS, **ELASTIC, **PAUSES, **ENDS, **WARNINGS, **NODES, **LINKS, **ERRORS, **FILES, **CERTIFICATES, **PEOPLE,
    **DOCTOR, **CONSOLE, **CONFIGURATION, **SETUP, **STORE, **CLIENT, **CONNECTION, **COMMANDS,
}  # fmt: skip
