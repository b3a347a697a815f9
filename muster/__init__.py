"""What people import: `import muster; lab = muster.connect()`.

Hands on the Python API (`client.api`), the shapes of what it gives (`client.shapes`) and the errors that it raises
(`wire.errors`). Everything else that is installed beside it is Muster's own business and may change.
"""

from __future__ import annotations

from client.api import Client, connect
from client.shapes import (
    After,
    AgentsDone,
    Allocation,
    Cancelled,
    Foreign,
    Gpu,
    Key,
    Message,
    Node,
    NodeAdded,
    NodeEdited,
    NodePage,
    NodeRemoved,
    Task,
    Trust,
    Unstarted,
    Why,
)
from client.states import ENDED
from wire.errors import (
    BadRequestError,
    ConfigError,
    ConflictError,
    ForbiddenError,
    ImpossibleError,
    LimitError,
    MusterError,
    NodeUnreachableError,
    NotFoundError,
    StorageError,
    StoreUnavailableError,
    UnauthenticatedError,
    UnreachableError,
    UntrustedError,
)

__all__ = [
    "ENDED",
    "After",
    "AgentsDone",
    "Allocation",
    "BadRequestError",
    "Cancelled",
    "Client",
    "ConfigError",
    "ConflictError",
    "ForbiddenError",
    "Foreign",
    "Gpu",
    "ImpossibleError",
    "Key",
    "LimitError",
    "Message",
    "MusterError",
    "Node",
    "NodeAdded",
    "NodeEdited",
    "NodePage",
    "NodeRemoved",
    "NodeUnreachableError",
    "NotFoundError",
    "StorageError",
    "StoreUnavailableError",
    "Task",
    "Trust",
    "UnauthenticatedError",
    "UnreachableError",
    "Unstarted",
    "UntrustedError",
    "Why",
    "connect",
]
