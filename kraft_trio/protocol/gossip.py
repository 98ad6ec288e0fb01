"""Which advertisements of voters a node accepts (KIP-642 "Quorum Bootstrapping", docs/explanation/protocol.md#gossip).

An advertisement says where a voter listens.  It is a hint for where to send a request, never for who votes: the log
alone names the voters, and each request names the voter that it is meant for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import attrs

from kraft_trio.protocol.types import Endpoint, Endpoints, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

MAX_BOOT: Final = 2**62
MAX_ADVERTISEMENTS: Final = 64
"""The most advertisements in one message."""
MAX_ENDPOINTS: Final = 8
"""The most listeners of one voter."""
MAX_NAME_CHARACTERS: Final = 255
"""The longest host name (RFC 1035), and the longest listener name."""


@attrs.frozen
class Advertisement:
    """A voter's own statement of where it listens, as it reached this node, perhaps through others."""

    key: ReplicaKey
    boot: int
    """The number of the voter's process, from 1.  A voter raises it before its first advertisement after each start."""
    epoch: int
    """The voter's epoch at that time."""
    endpoints: Endpoints

    @property
    def rank(self) -> tuple[int, int]:
        """A voter's later statement has a higher rank."""
        return (self.boot, self.epoch)

    def defect(self) -> str | None:
        """Which bound the advertisement exceeds, or None if it is well-formed."""
        if self.key.id < 0 or self.epoch < 0 or not 1 <= self.boot <= MAX_BOOT:
            return "a number is out of range"
        if not 1 <= len(self.endpoints) <= MAX_ENDPOINTS:
            return f"{len(self.endpoints)} endpoints, expected 1 to {MAX_ENDPOINTS}"
        if len({name for name, _ in self.endpoints}) < len(self.endpoints):
            return "a listener name is given twice"
        if not all(_is_usable(name, endpoint) for name, endpoint in self.endpoints):
            return "an endpoint that cannot be connected to"
        return None


def _is_usable(name: str, endpoint: Endpoint) -> bool:
    return (
        0 < len(name) <= MAX_NAME_CHARACTERS
        and 0 < len(endpoint.host) <= MAX_NAME_CHARACTERS
        and endpoint.host.isascii()
        and endpoint.host.isprintable()
        and 1 <= endpoint.port <= 65535
    )


@attrs.frozen
class Whereabouts:
    """The accepted advertisement of each voter, by voter id; never more than there are voters."""

    by_id: Mapping[int, Advertisement] = MappingProxyType({})
    doubted: frozenset[int] = frozenset()
    """The voters that were not found where they are advertised.  Any other advertisement may replace theirs."""

    def __iter__(self) -> Iterator[Advertisement]:
        return iter(self.by_id.values())

    def refusal(self, heard: Advertisement, voters: VoterSet) -> str | None:
        """Why the advertisement is not accepted, or None if it is.

        Advertisements of one voter are accepted in rising order of their ranks.  Otherwise an old one that is still
        passed around would hide the voter again.  A false one must not be able to hide it for ever, so the order does
        not protect an advertisement that has proved wrong.
        """
        if not voters.is_voter(heard.key):
            return "not a voter"
        if (defect := heard.defect()) is not None:
            return defect
        known = self.by_id.get(heard.key.id)
        if known is None or heard.rank > known.rank:
            return None
        if heard.key.id in self.doubted and heard.endpoints != known.endpoints:
            return None
        return "not newer"

    def with_advertisement(self, accepted: Advertisement) -> Whereabouts:
        by_id = {**self.by_id, accepted.key.id: accepted}
        known = self.by_id.get(accepted.key.id)
        is_news = known is None or known.endpoints != accepted.endpoints
        return Whereabouts(by_id, self.doubted - {accepted.key.id} if is_news else self.doubted)

    def doubting(self, voter_id: int) -> Whereabouts:
        """After a request to the advertised endpoint did not reach that voter."""
        return attrs.evolve(self, doubted=self.doubted | {voter_id}) if voter_id in self.by_id else self

    def trusting(self, voter_id: int) -> Whereabouts:
        """After the voter has answered at its advertised endpoint."""
        return attrs.evolve(self, doubted=self.doubted - {voter_id})

    def of_voters(self, voters: VoterSet) -> Whereabouts:
        """Without replicas that are not in the set (any more)."""
        kept = {id: known for id, known in self.by_id.items() if voters.is_voter(known.key)}
        return Whereabouts(kept, self.doubted & kept.keys())


def boot_to_overtake(own: Advertisement, heard: Advertisement) -> int | None:
    """The boot number with which this node's own advertisement prevails over a wrong one of its id.

    None if the other one is of another voter, right, or older, or if no number is left.
    """
    if heard.key.id != own.key.id or heard.endpoints == own.endpoints or heard.rank < own.rank:
        return None
    return heard.boot + 1 if heard.boot < MAX_BOOT else None


def choose_endpoint(logged: Endpoint | None, hinted: Endpoint | None, failed: Endpoint | None) -> Endpoint | None:
    """Where to send the next request to a voter: to its endpoint in the log, unless the last request there failed.

    After a failure the two endpoints take turns.
    """
    candidates = [endpoint for endpoint in (logged, hinted) if endpoint is not None]
    return next((endpoint for endpoint in candidates if endpoint != failed), candidates[0] if candidates else None)


@attrs.define
class Allowance:
    """How many requests a node takes: at most `burst` at once, and as many again in each period."""

    burst: int
    period_s: float
    _left: float = attrs.field(default=attrs.Factory(lambda self: float(self.burst), takes_self=True), init=False)
    _at_s: float | None = attrs.field(default=None, init=False)

    def take(self, now_s: float) -> bool:
        """Use up one request.  Returns False if none is left."""
        passed_s = 0.0 if self._at_s is None else now_s - self._at_s
        self._at_s = now_s
        self._left = min(self.burst, self._left + self.burst * passed_s / self.period_s)
        if self._left < 1:
            return False
        self._left -= 1
        return True
