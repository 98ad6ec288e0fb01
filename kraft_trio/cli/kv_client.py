"""A client of the key-value store's gateway, which needs only Python's own HTTP client."""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Any, TypeVar, cast

from kraft_trio.errors import NetworkError
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.proto_json import dumps, parse, structure
from kraft_trio.protocol.request_ids import RANDOM_BITS, new_request_id

M = TypeVar("M")

_UNREACHABLE = (OSError, HTTPException)


class KvClient:
    """Sends each request to the first endpoint that answers."""

    def __init__(self, endpoints: Sequence[str], timeout_s: float) -> None:
        self._endpoints = list(endpoints)
        self._timeout_s = timeout_s

    def post(self, path: str, request: object, response: type[M]) -> M:
        """Return the answer.  A write is executed once, whichever endpoints are tried.

        Raises KvError if the store refuses, and NetworkError if no endpoint answers.
        """
        with self._open(path, request, self._timeout_s) as answer:
            return parse(response, answer.read().decode())

    def stream(self, path: str, request: object, response: type[M]) -> Iterator[M]:
        """Yield the answers until the server ends the stream.  Raises KvError and NetworkError."""
        with self._open(path, request, None) as answer:
            for line in answer:
                message = json.loads(line)
                if "error" in message:
                    raise _error(message["error"])
                yield structure(response, message["result"])

    def _open(self, path: str, request: object, timeout_s: float | None) -> HTTPResponse:
        request_id = new_request_id(time.time_ns() // 1_000_000, secrets.randbits(RANDOM_BITS))
        headers = {"Content-Type": "application/json", "Kraft-Request-Id": str(request_id)}
        failures = []
        for endpoint in list(self._endpoints):
            sent = urllib.request.Request(f"{endpoint}{path}", dumps(request), headers)
            try:
                answer = cast(HTTPResponse, urllib.request.urlopen(sent, timeout=timeout_s))
            except urllib.error.HTTPError as error:
                refusal = _error(_content(error))
                if refusal.code is not Code.UNAVAILABLE:
                    raise refusal from None
                failures.append(f"{endpoint}: {refusal.message}")
            except _UNREACHABLE as error:
                reason = getattr(error, "reason", error)
                failures.append(f"{endpoint}: {getattr(reason, 'strerror', None) or reason}")
            else:
                self._endpoints.sort(key=lambda other, good=endpoint: other != good)  # type: ignore[misc]
                return answer
        raise NetworkError("; ".join(failures))


def _content(error: urllib.error.HTTPError) -> dict[str, Any]:
    try:
        found = json.loads(error.read())
    except (ValueError, *_UNREACHABLE):
        found = None
    return found if isinstance(found, dict) else {"message": f"{error.code} {error.reason}"}


def _error(content: dict[str, Any]) -> KvError:
    try:
        code = Code(int(content.get("code", content.get("grpc_code"))))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        code = Code.UNKNOWN
    return KvError(code, str(content.get("message")))
