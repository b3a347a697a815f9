"""A line that is read the short way is one that the strict reader takes, and is read as the same."""

from __future__ import annotations

import json

import pytest

from master.sessions import json_rpc_frames as rpc_frames
from wire.client import Request
from wire.errors import ProtocolError
from wire.framing import MOST_VALUES

PARAMS = (
    "{}",
    '{"command":"echo  two   spaces","hold":true}',
    '{ "command" : [ "a" , "b c" ] }',
    '{"name":"大模型","at":0.1,"many":123456789012345678901234567890,"none":null}',
    '{"at":1e3}',
    '{"name":"\\u5927"}',
    '{"a":{"a":{"a":[[[1]]]}}}',
)
BAD = (
    '{"id":1,"id":2}',
    '{"id":1, "id":1}',
    '{"a":{"b":1,"b":1}}',
    '{"a b":1,"ab":2,"a b":3}',
    '{"at":NaN}',
    '{"at":1e999}',
    '{"name":"\\ud800"}',
    "[1]",
    '{"deep":' + "[" * 64 + "]" * 64 + "}",
    '{"deep":' + "[" * 9000 + "]" * 9000 + "}",
    '{"a":1 1}',
    '{"a":1}}',
)


def line(params: str) -> bytes:
    return ('{"jsonrpc":"2.0","id":7,"method":"task.show","params":' + params + "}").encode()


@pytest.mark.parametrize("params", PARAMS)
@pytest.mark.parametrize("compact", [False, True])
def test_a_request_is_read_as_it_is_written(params: str, *, compact: bool) -> None:
    said = json.loads(params)
    frame = line(json.dumps(said, ensure_ascii=False, separators=(",", ":")) if compact else params)
    assert rpc_frames.parse(frame) == Request(jsonrpc="2.0", id=7, method="task.show", params=said)


@pytest.mark.parametrize("params", BAD)
def test_what_the_strict_reader_refuses_has_no_short_way(params: str) -> None:
    with pytest.raises(ProtocolError):
        rpc_frames.parse(line(params))


def test_a_byte_that_is_no_text_is_refused() -> None:
    with pytest.raises(ProtocolError):
        rpc_frames.parse(line('{"a":"?"}').replace(b"?", b"\xff"))


def test_the_keys_of_a_request_may_stand_in_any_order() -> None:
    frame = b'{"method":"server.info","params":{},"id":"x","jsonrpc":"2.0"}'
    assert rpc_frames.parse(frame) == Request(jsonrpc="2.0", id="x", method="server.info", params={})


@pytest.mark.parametrize("value", ["[]", "{}", "1", '"a"'])
def test_a_request_of_too_many_values_is_refused_and_one_long_text_is_not(value: str) -> None:
    def frame(params: str) -> bytes:
        return f'{{"jsonrpc":"2.0","id":1,"method":"subscribe","params":{{"ids":{params}}}}}'.encode()

    with pytest.raises(ProtocolError, match="more than 500,000 values"):
        rpc_frames.parse(frame(f"[{','.join([value] * (MOST_VALUES + 1))}]"))
    assert rpc_frames.parse(frame(json.dumps("[{," * MOST_VALUES))).params["ids"].startswith("[{,")
