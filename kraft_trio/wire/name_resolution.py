"""Resolves host names.  A name whose resolver does not answer delays nothing else.

`getaddrinfo` may block its thread for a long time.  Each lookup therefore has a thread of its own: Trio's worker
threads are few, and other tasks need them.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import attrs
import trio

from kraft_trio.errors import NetworkError

MAX_LOOKUPS: Final = 16
"""The most lookups at the same time, each in a thread of its own."""
MAX_NAMES: Final = 256
"""The number of names whose addresses are remembered.  The name with the oldest lookup is forgotten first."""
FRESH_S: Final = 10.0
"""How long an answer is used without another lookup, unless no connection to its addresses succeeds."""
REFRESH_TIMEOUT_S: Final = 1.0
"""How long to wait for an answer before an earlier one is used instead."""
TIMEOUT_S: Final = 10.0
"""How long to wait for an answer if no earlier answer is known."""
MAX_ADDRESSES: Final = 8
"""The most addresses of one name."""
MAX_NAME_CHARACTERS: Final = 255
"""The longest name that is looked up.  Python's encoding of a name that is not ASCII takes time that grows with the
square of its length, and peers tell names."""

Lookup: TypeAlias = Callable[..., Any]
"""`socket.getaddrinfo`, or a test's replacement for it."""


@attrs.define(eq=False)
class _Asked:
    """A running lookup."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    failure: str = ""


@attrs.frozen
class _Known:
    addresses: tuple[str, ...]
    since_s: float


class NameResolver:
    """Looks up names.  All callers that ask for a name share one lookup; at most MAX_LOOKUPS run at a time.

    A lookup continues if its callers are cancelled.  If it is slow or fails, the last answer is used.
    """

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._asked: dict[str, _Asked] = {}
        self._known: dict[str, _Known] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """The addresses of a host name, in the resolver's order.  An address is returned as it is.

        Raises NetworkError if there is no address or no answer in time, and ValueError for a malformed name.
        """
        if len(host) > MAX_NAME_CHARACTERS:
            raise ValueError(f"{len(host)} characters, at most {MAX_NAME_CHARACTERS} are allowed")
        if "\0" in host:
            # The resolver would look up what comes before it.
            raise ValueError("it has a NUL character")
        with suppress(socket.gaierror):
            # An address needs no resolver.
            return _addresses_in(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        known = self._known.get(host)
        if known is not None and trio.current_time() - known.since_s < FRESH_S:
            return known.addresses
        asked = self._asked.get(host) or self._ask(host)
        if asked is not None:
            with trio.move_on_after(TIMEOUT_S if known is None else REFRESH_TIMEOUT_S):
                await asked.ended.wait()
        known = self._known.get(host)
        if known is None:
            raise NetworkError(f"cannot connect: {host!r} is not resolved: {_reason(asked)}")
        return known.addresses

    def forget(self, host: str) -> None:
        """Look the name up again next time.  For callers that could connect to none of its addresses."""
        known = self._known.get(host)
        if known is not None:
            self._known[host] = _Known(known.addresses, -FRESH_S)

    def _ask(self, host: str) -> _Asked | None:
        """Start a lookup.  None if too many are running."""
        if len(self._asked) >= MAX_LOOKUPS:
            return None
        asked = self._asked[host] = _Asked()
        token = trio.lowlevel.current_trio_token()

        def look_up() -> tuple[str, ...]:
            return _addresses_in(self._lookup(host, None, type=socket.SOCK_STREAM))

        def deliver(outcome: Any) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(self._answered, host, asked, outcome)

        trio.lowlevel.start_thread_soon(look_up, deliver, "kraft-resolver")
        return asked

    def _answered(self, host: str, asked: _Asked, outcome: Any) -> None:
        del self._asked[host]
        try:
            addresses = outcome.unwrap()
        except (OSError, ValueError) as error:
            asked.failure = getattr(error, "strerror", None) or str(error)
        else:
            self._known.pop(host, None)
            if len(self._known) >= MAX_NAMES:
                del self._known[next(iter(self._known))]
            self._known[host] = _Known(addresses, trio.current_time())
        asked.ended.set()


def _addresses_in(found: list[Any]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))[:MAX_ADDRESSES]


def _reason(asked: _Asked | None) -> str:
    if asked is None:
        return f"{MAX_LOOKUPS} other names are being looked up"
    return asked.failure or f"no answer in {TIMEOUT_S:g} s"
