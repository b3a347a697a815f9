"""Messages of the console about requests to itself, beside the answers of the master."""

from __future__ import annotations

CONSOLE: dict[str, str] = {
    "sign_in_first": "sign in first: the request has no log-in and no token, or one that is not valid any more",
    "sign_in_with": "sign in with `user` and `password`, with a `token`, or with a `link` and the `password` to be",
    "plain_sign_in": "this connection is not encrypted: sign in over https, or over a tunnel (`ssh -L`)",
    "foreign_host": "{host!r} is no name of this console: call it by one of conf.json's web.hosts, or by its address",
    "foreign_origin": "a page of {origin!r} asks, and only those of {expected} may",
    "master_port_taken": "the master's port is held by uid {uid}, which is not the master's account: is the master "
    "down? (`muster up`)",
    "master_of_another_lab": "the master's port is held by the master of another lab (`muster up` names it)",
    "master_unknown": "it cannot be told which account has the master's port, and the master speaks no TLS: nothing is "
    "sent there",
    "master_away": "the master cannot be reached: is it up? (`muster up`)",
    "master_silent": "the master did not answer within {seconds:number} s: it may or may not have done what was asked",
    "master_unclear": "what answers at the master's port is not a Muster master",
    "console_full": "{most} log-ins use the console at this moment: try again later",
    "two_lengths": "a request has a Content-Length or a Transfer-Encoding, not both",
    "bad_upgrade": "this is no request for a WebSocket: it has no body, and at most 128 headers of 8 KiB each",
    "slow_head": "the head of a request has to be here within {seconds} s",
    "slow_body": "the body comes more slowly than {slowest} bytes a second; send a file in pieces",
    "archive_too_large": "as one archive a folder has at most {entries} entries and {bytes} bytes: take parts of it",
    "archive_too_slow": "the archive was not made within {seconds} s: take parts of the folder",
    "archives_full": "{most} archives are being sent at this moment: try again later",
    "console_share_open": "{most} requests and pages of yours are open at the same time, and no more may be: end some",
    "console_share_bytes": (
        "more than {most} bytes of your requests, and of answers that you have not read, would be kept: try again when "
        "some are read"
    ),
    "body_too_large": "the body has more than {most} bytes",
    "bad_subscription": "{said}: `stream` is tasks or nodes, `ids` are those of tasks",
    "verb_of_connections": "{verb} is about a connection, and has no meaning here: sign in by POST /session, or show "
    "a token",
    "json_wanted": "the body is to be JSON: Content-Type: application/json",
    "bad_body": "the body is no JSON object: {said}",
    "no_parameter": "{name!r} is no parameter here; there are {known:list or none}",
    "parameter_twice": "{name} stands there twice",
    "no_if_match": "{verb} looks at no If-Match: leave it out, or edit the task, which does",
    "no_idempotency": "{verb} takes no Idempotency-Key: to ask it twice is as good as once, or is seen by its answer",
    "bad_range": "{said!r} is no range that can be answered: one of bytes, of a file or a log",
    "body_too_short": "the body was to have {said} bytes, and {came} came: the rest may follow with Content-Range",
    "file_changed": "the file is not the one that If-Match names: it was changed or removed meanwhile",
    "upload_not_named": "X-Muster-Upload is missing: the answer to the first piece has it, and names the upload",
    "file_is_there": "there is a file already, and If-None-Match wants none",
    "no_ticket_for": "{path!r} cannot be downloaded: files/PATH, tasks/ID/log and server/log can",
    "no_ticket": "this address works no more: it was used, is over, or is somebody else's. Ask for another",
    "no_page": "there is nothing at {path}",
    "no_method": "{method} means nothing at {path}",
}
