"""Every sentence that Muster makes for people, in English, by its key: what is said, and nothing of when.

`{value}` is the place of a value, `{value:form}` says how it is put into words (see `wire.message`). A key stays what
it is when its sentence is worded better: other languages and programs go by it.
"""

from __future__ import annotations

from wire.english.certificates import CERTIFICATES
from wire.english.errors import ERRORS
from wire.english.files import FILES
from wire.english.nodes import NODES
from wire.english.people import PEOPLE
from wire.english.tasks import ENDS, WAITS, WARNINGS

SENTENCES: dict[str, str] = {**WAITS, **ENDS, **WARNINGS, **NODES, **ERRORS, **FILES, **CERTIFICATES, **PEOPLE}
