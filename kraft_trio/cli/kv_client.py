"""A client of the key-value store's gateway, which needs only Python's own HTTP client."""

from __future__ import annotations

import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from typing import TypeVar, cast

from kraft_trio.errors import NetworkError
from kraft_trio.kv.errors import Code, KvError
from kraft_trio.kv.proto_json import dumps, parse, structure
from kraft_trio.protocol.request_ids import RANDOM_BITS, new_request_id

A = TypeVar("A")
M = TypeVar("M")

_FAILURES = (OSError, HTTPException, ValueError)


class KvClient:
    """Sends each request to the first endpoint that answers as a gateway does."""

    def __init__(self, endpoints: Sequence[str], timeout_s: float) -> None:
        self._endpoints = list(endpoints)
        self._timeout_s = timeout_s

    def post(self, path: str, request: object, response: type[M]) -> M:
        """Return the answer.  A write is executed once, whichever endpoints are tried.

        Raises KvError if the store refuses, and NetworkError if no endpoint answers.
        """

        def read(answer: HTTPResponse) -> M:
            with answer, _of_a_gateway():
                return parse(response, answer.read().decode())

        return self._ask(path, request, self._timeout_s, read)

    def stream(self, path: str, request: object, response: type[M]) -> Iterator[M]:
        """Yield the answers, one or more, until the server ends the stream.  Raises KvError and NetworkError."""
        is_empty = True
        with self._ask(path, request, None, lambda answer: answer) as answer:
            try:
                for line in answer:
                    is_empty = False
                    yield _message(response, line)
            except _FAILURES as error:
                raise NetworkError(f"{self._endpoints[0]}: {_reason(error)}") from error
        if is_empty:
            raise NetworkError(f"{self._endpoints[0]}: no answer of a gateway: it is empty")

    def _ask(self, path: str, request: object, timeout_s: float | None, read: Callable[[HTTPResponse], A]) -> A:
        """What `read` makes of the first answer.  The endpoint that gave it is the first from now on."""
        request_id = new_request_id(time.time_ns() // 1_000_000, secrets.randbits(RANDOM_BITS))
        headers = {"Content-Type": "application/json", "Kraft-Request-Id": str(request_id)}
        failures = []
        for endpoint in list(self._endpoints):
            sent = urllib.request.Request(f"{endpoint}{path}", dumps(request), headers)
            try:
                found = read(cast(HTTPResponse, urllib.request.urlopen(sent, timeout=timeout_s)))
            except urllib.error.HTTPError as error:
                refusal = _refusal(_content(error))
                if refusal is not None and refusal.code is not Code.UNAVAILABLE:
                    raise refusal from None
                failures.append(f"{endpoint}: {refusal or f'{error.code} {error.reason}'}")
            except _FAILURES as error:
                failures.append(f"{endpoint}: {_reason(error)}")
            else:
                self._endpoints.sort(key=lambda other, good=endpoint: other != good)  # type: ignore[misc]
                return found
        raise NetworkError("; ".join(failures))


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError):
        return f"no answer of a gateway: {error}"
    reason = getattr(error, "reason", error)
    return f"{getattr(reason, 'strerror', None) or reason}"


@contextmanager
def _of_a_gateway() -> Iterator[None]:
    """Raises ValueError for an answer that no gateway gives."""
    try:
        yield
    except KvError as error:
        raise ValueError(error.message) from None


def _message(response: type[M], line: bytes) -> M:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("an object expected")
    if (refusal := _refusal(message.get("error"))) is not None:
        raise refusal
    with _of_a_gateway():
        return structure(response, message.get("result"))


def _content(error: urllib.error.HTTPError) -> object:
    try:
        return json.loads(error.read())
    except _FAILURES:
        return None


def _refusal(content: object) -> KvError | None:
    """What a gateway says; None of another server."""
    if not isinstance(content, dict) or not isinstance(content.get("message"), str):
        return None
    try:
        code = Code(int(content.get("code", content.get("grpc_code"))))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        code = Code.UNKNOWN
    return KvError(code, content["message"])
