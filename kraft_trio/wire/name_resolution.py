"""Host names to addresses, such that a resolver that does not answer costs nobody else anything.

`getaddrinfo` blocks its thread for as long as it likes.  Trio's own threads are few, and others need them.
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
"""Names that are being looked up at the same time, each in a thread of its own."""
MAX_NAMES: Final = 256
"""Names whose addresses are remembered; beyond that the least recently looked up is forgotten."""
FRESH_S: Final = 10.0
"""For how long a name is not looked up again, unless its addresses turn out to be of no use."""
PATIENCE_S: Final = 1.0
"""How long to wait for an answer where the last one is still known."""
TIMEOUT_S: Final = 10.0
"""How long to wait where nothing is known."""
MAX_ADDRESSES: Final = 8
"""Of one name."""

Lookup: TypeAlias = Callable[..., Any]
"""`socket.getaddrinfo`, or what a test puts in its place."""


@attrs.define(eq=False)
class _Asked:
    """A lookup under way."""

    ended: trio.Event = attrs.field(factory=trio.Event)
    failure: str = ""


@attrs.frozen
class _Known:
    addresses: tuple[str, ...]
    since_s: float


class NameResolver:
    """Looks names up: each at most once at a time, whoever asks, and at most MAX_LOOKUPS of them.

    A lookup outlives those who wait for it.  Where a name's resolver is slow or fails, the last answer serves.
    """

    def __init__(self, lookup: Lookup = socket.getaddrinfo) -> None:
        self._lookup = lookup
        self._asked: dict[str, _Asked] = {}
        self._known: dict[str, _Known] = {}

    async def addresses(self, host: str) -> tuple[str, ...]:
        """The addresses of a name, in the resolver's order; of an address itself.

        Raises NetworkError where there are none, or not in time; ValueError for what is no name.
        """
        with suppress(socket.gaierror):
            # Answered without a resolver.
            return _addresses_in(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
        known = self._known.get(host)
        if known is not None and trio.current_time() - known.since_s < FRESH_S:
            return known.addresses
        asked = self._asked.get(host) or self._ask(host)
        if asked is not None:
            with trio.move_on_after(TIMEOUT_S if known is None else PATIENCE_S):
                await asked.ended.wait()
        known = self._known.get(host)
        if known is None:
            raise NetworkError(f"cannot connect: {host!r} is not resolved: {_reason(asked)}")
        return known.addresses

    def forget(self, host: str) -> None:
        """No connection could be made to any of its addresses: ask again next time, though the last answer serves."""
        known = self._known.get(host)
        if known is not None:
            self._known[host] = _Known(known.addresses, -FRESH_S)

    def _ask(self, host: str) -> _Asked | None:
        """None where too many are under way."""
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
