"""Checks an answer against the schema of its verb, but only after the client failed to use it.

Another program may listen at the port, and a master of another version may answer with other keys. A command, or a
method of the Python API, then ends with a ProtocolError in place of a KeyError. Correct answers cost nothing: the
client remembers only the last ones, and only while a method uses them. The schemas are those of this version's OpenAPI
document. Errors of our own code stay as they are.
"""

from __future__ import annotations

from client.refusals import coded_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from wire.message import Message

    T = TypeVar("T", bound=type)
    Heard = Iterable[tuple[str, str, Any]]

SUSPECT = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""The errors that a wrong answer can cause."""
_GENERATES = 0x20
_LARGEST = 1e15
_LAST_MOMENT = 253_402_300_799
"""The end of the year 9999, in seconds since the epoch: `datetime` shows no later moment."""
_DEEPEST = 64
_NEWS = {"task.changed": ("task", "Task"), "node.changed": ("node", "Node")}
"""For each notification the key of its task or node, and the schema. Without the key the task or node was deleted."""
_KINDS = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def explained(heard: Heard, error: Exception) -> Exception:
    """Return a ProtocolError if one of the answers does not match its schema (the newest is checked first); else the
    error itself. `heard`: address, verb and result of each answer."""
    if not isinstance(error, SUSPECT):
        return error
    for where, verb, result in reversed(list(heard)):
        fault = fault_of(verb, result)
        if fault is not None:
            return _protocol_error(where, verb, fault)
    return error


def _of_method(heard: Heard, error: Exception) -> Exception:
    """Return the same for a method of the API. Such a method only reads the answer, so a value that it cannot use is a
    fault of the answer, even if the answer matches its schema."""
    told = explained(heard, error)
    if told is error and isinstance(error, (ValueError, IndexError, OverflowError)):
        for where, verb, _ in reversed(list(heard)):
            from wire.message import Message

            return _protocol_error(where, verb, Message("value_unusable", detail=str(error)))
    return told


def fault_of(verb: str, result: Any) -> Message | None:
    """Return the fault of an answer to a verb; None if there is none, or if this version does not know the verb."""
    from client.verbs import Verbs

    verbs = Verbs()
    if verb in _NEWS:
        key, named = _NEWS[verb]
        return _Schemas(verbs.schemas).fault(verbs.schemas[named], result[key], key) if key in result else None
    if verb not in verbs.names:
        return None
    return _Schemas(verbs.schemas).fault(verbs.answer(verb), result, "")


def clear_errors(cls: T) -> T:
    """Make all public methods of a class of the Python API raise ProtocolError for wrong answers."""
    for name, method in list(vars(cls).items()):
        if type(method) is type(clear_errors) and not name.startswith("_"):
            guarded = _generating(method) if method.__code__.co_flags & _GENERATES else _calling(method)
            for part in ("__name__", "__qualname__", "__doc__", "__module__", "__wrapped__"):
                setattr(guarded, part, method if part == "__wrapped__" else getattr(method, part))
            setattr(cls, name, guarded)
    return cls


def _calling(method: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: Any, *args: Any, **named: Any) -> Any:
        session, before = _listen(self)
        try:
            return method(self, *args, **named)
        except SUSPECT as error:
            raise _of_method(session.heard or (), error) from None
        finally:
            if before is not None:  # a method called this one, and uses its result
                before.extend(session.heard)
            session.heard = before

    return guarded


def _generating(method: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: Any, *args: Any, **named: Any) -> Any:
        session, before = _listen(self)
        try:
            yield from method(self, *args, **named)
        except SUSPECT as error:
            raise _of_method(session.heard or (), error) from None
        finally:
            if before is not None:  # a method called this one, and uses its result
                before.extend(session.heard)
            session.heard = before

    return guarded


def _listen(caller: Any) -> tuple[Any, Any]:
    """Start remembering the answers of a caller. Return its session, and the answers remembered before."""
    session = getattr(getattr(caller, "_caller", caller), "session", _NoSession)
    from collections import deque

    before = session.heard
    session.heard = deque(maxlen=2)
    return session, before


class _NoSession:
    """Stands in for the session of a caller that has none."""

    heard = None


def _protocol_error(where: str, verb: str, fault: Message) -> Exception:
    return coded_error("protocol", "answer_not_understood", at=where, verb=verb, fault=fault)


class _Schemas:
    """Checks values against the part of JSON Schema that our schemas use: types, required keys, items, alternatives."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named

    def fault(self, schema: dict[str, Any], value: Any, path: str) -> Message | None:
        """Return the first fault with its path; None if there is none."""
        from wire.message import Message

        if path.count(".") + path.count("[") > _DEEPEST:
            return Message("value_too_deep", where=_named(path))
        reference = schema.get("$ref")
        if reference is not None:
            return self.fault(self._named[reference.rpartition("/")[2]], value, path)
        if "anyOf" in schema:
            faults = [self.fault(one, value, path) for one in schema["anyOf"]]
            return None if None in faults else faults[0]
        kinds = schema.get("type", ())
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(_is(value, kind) for kind in kinds):
            return Message("value_of_kind", where=_named(path), found=type(value).__name__, kinds=tuple(kinds))
        if isinstance(value, dict):
            return self._in_object(schema, value, path)
        if isinstance(value, list):
            return self._in_list(schema, value, path)
        return _wrong_number(value, path)

    def _in_object(self, schema: dict[str, Any], value: dict[str, Any], path: str) -> Message | None:
        from wire.message import Message

        missing = next((key for key in schema.get("required", ()) if key not in value), None)
        if missing is not None:
            return Message("value_lacks", where=_named(path), key=missing)
        known, others = schema.get("properties", {}), schema.get("additionalProperties")
        for key, one in value.items():
            its = known.get(key, others)
            fault = self.fault(its, one, f"{path}.{key}".lstrip(".")) if isinstance(its, dict) else None
            if fault is not None:
                return fault
        return None

    def _in_list(self, schema: dict[str, Any], value: list[Any], path: str) -> Message | None:
        from wire.message import Message

        first, rest = schema.get("prefixItems", []), schema.get("items")
        if len(value) < len(first):
            return Message("value_too_short", where=_named(path))
        for number, one in enumerate(value):
            its = first[number] if number < len(first) else rest
            fault = self.fault(its, one, f"{path}[{number}]") if isinstance(its, dict) else None
            if fault is not None:
                return fault
        return None


def _is(value: Any, kind: str) -> bool:
    if kind in ("integer", "number"):
        return type(value) is int or (type(value) is float and (kind == "number" or value.is_integer()))
    return type(value) is _KINDS[kind]


def _named(path: str) -> str:
    return path or "result"


def _wrong_number(value: Any, path: str) -> Message | None:
    if type(value) not in (int, float):
        return None
    name = path.rpartition(".")[2]
    most = _LAST_MOMENT if name in ("at", "until") or name.endswith("_at") else _LARGEST
    if -most <= value <= most:
        return None
    from wire.message import Message

    return Message("value_out_of_range", where=_named(path))
