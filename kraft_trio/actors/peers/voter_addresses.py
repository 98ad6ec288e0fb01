"""Sends requests to voters: to the endpoint in the log, or to the advertised one if that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

import attrs

from kraft_trio.actors.peers.network_client import NetworkClient
from kraft_trio.errors import NetworkError, UnsupportedVersionError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.gossip import Advertisement, Whereabouts, choose_endpoint
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.wire.api import BEGIN_QUORUM_EPOCH, VOTE, Api
from kraft_trio.wire.error_codes import ErrorCode

log = get_logger(__name__)

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

NAMING_THEIR_VOTER: Final[Mapping[int, Api[Any, Any]]] = {
    api.key: attrs.evolve(api, min_version=1) for api in (VOTE, BEGIN_QUORUM_EPOCH)
}
"""Vote and BeginQuorumEpoch from the version on that names the voter it is meant for (KIP-853).

Before, a node would vote in place of another one at whose advertised endpoint it listens.
"""

_SOMEBODY_ELSE: Final = frozenset({ErrorCode.invalid_voter_key, ErrorCode.inconsistent_cluster_id})


class AnotherDiskError(NetworkError):
    """A node with the voter's id, but another directory id, has answered where the voter is looked for first."""


class VoterAddresses:
    """Where one node looks for the voters.  It alone changes `whereabouts`."""

    def __init__(
        self,
        client: NetworkClient,
        listener_name: str,
        refusal: Callable[[bytes | None, ReplicaKey], str | None] = lambda _certificate, _voter: None,
    ) -> None:
        """`refusal` says why the node with a certificate must not answer as a voter, or None if it may."""
        self._client = client
        self._refusal = refusal
        self._listener_name = listener_name
        self.whereabouts = Whereabouts()
        self._failed: dict[int, Endpoint] = {}
        """By voter id, the endpoint that failed last."""

    def hear(self, heard: Iterable[Advertisement], voters: VoterSet) -> None:
        """Accept what is new, and forget replicas that are not in the set."""
        whereabouts = self.whereabouts.of_voters(voters)
        for advertisement in heard:
            if whereabouts.refusal(advertisement, voters) is None:
                self._log_move(voters.get(advertisement.key.id), whereabouts, advertisement)
                whereabouts = whereabouts.with_advertisement(advertisement)
        self.whereabouts = whereabouts

    def _log_move(self, voter: Voter | None, before: Whereabouts, now: Advertisement) -> None:
        """Log that a voter is not where the log, or an earlier advertisement, says."""
        known = before.by_id.get(now.key.id)
        sources = [source for source in (voter, known) if source is not None]
        endpoint = now.endpoints.get(self._listener_name)
        if endpoint not in [source.endpoints.get(self._listener_name) for source in sources]:
            log.info("voter advertised", voter=str(now.key), boot=now.boot, endpoint=str(endpoint))

    def endpoint_of(self, voter: Voter) -> Endpoint | None:
        """Where the next request to the voter goes.  None if no endpoint is known."""
        logged = voter.endpoints.get(self._listener_name)
        return choose_endpoint(logged, self._hinted(voter), self._failed.get(voter.id))

    def _hinted(self, voter: Voter) -> Endpoint | None:
        """Where the voter is advertised.  None for a static voter, whose requests do not say which disk they mean.

        Two machines with its id could otherwise both vote in one epoch.
        """
        advertised = self.whereabouts.by_id.get(voter.id)
        if advertised is None or advertised.key != voter.key or voter.key.directory_id == NO_DIRECTORY_ID:
            return None
        return advertised.endpoints.get(self._listener_name)

    async def ask(self, voter: Voter, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int) -> ResponseT:
        """Send one request to the voter, and wait up to `timeout_ms` for the response.

        Raises what `NetworkClient.request` raises, and NetworkError if another node answered at the endpoint although
        the voter may be at a different one.  The next request then goes to that one.
        """
        endpoint, logged = self.endpoint_of(voter), voter.endpoints.get(self._listener_name)
        if endpoint is None:
            raise NetworkError(f"{api.name} to voter {voter.key}: its endpoint is not known")
        try:
            if endpoint == logged:
                response = await self._client.request(endpoint, api, request, timeout_ms)
            else:
                response = await self._ask_hinted(endpoint, voter.key, api, request, timeout_ms)
        except NetworkError:
            self._fail(voter, endpoint)
            raise
        hinted = self._hinted(voter)
        errors = (getattr(response, "error", None), getattr(response, "partition_error", None))
        if hinted is not None and hinted != logged and any(error in _SOMEBODY_ELSE for error in errors):
            self._fail(voter, endpoint)
            is_same_id = ErrorCode.invalid_voter_key in errors
            raise (AnotherDiskError if is_same_id else NetworkError)(
                f"{api.name} to voter {voter.key}: another node answers at {endpoint}"
            )
        if endpoint == hinted:
            self.whereabouts = self.whereabouts.trusting(voter.id)
        return response

    async def _ask_hinted(
        self, endpoint: Endpoint, key: ReplicaKey, api: Api[RequestT, ResponseT], request: RequestT, timeout_ms: int
    ) -> ResponseT:
        """Over a connection of its own: a false advertisement leaves nothing behind.

        TLS only shows that the node is where the advertisement says, and not that it is this voter.
        """
        named = NAMING_THEIR_VOTER.get(api.key, api)
        try:
            return await self._client.request_apart(
                endpoint, named, request, timeout_ms, lambda certificate: self._refusal(certificate, key)
            )
        except UnsupportedVersionError as error:
            raise NetworkError(f"{api.name} to {endpoint}: {error}") from error

    def _fail(self, voter: Voter, endpoint: Endpoint) -> None:
        self._failed[voter.id] = endpoint
        if endpoint == self._hinted(voter):
            self.whereabouts = self.whereabouts.doubting(voter.id)
