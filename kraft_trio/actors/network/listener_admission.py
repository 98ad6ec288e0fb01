"""Accepts requests between replicas only on the listeners in `controller.listener.names`.

Such requests move epochs, name leaders, or claim that a replica holds records.  A client that could send them could end
a leadership, or make a record count that no replica has.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from kraft_trio.errors import ProtocolError
from kraft_trio.wire.api import BEGIN_QUORUM_EPOCH, DISCOVER_VOTERS, END_QUORUM_EPOCH, UPDATE_RAFT_VOTER, VOTE
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.discover_voters import DiscoverVotersRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import FetchRequest
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotRequest
from kraft_trio.wire.apis.update_raft_voter import UpdateRaftVoterRequest
from kraft_trio.wire.apis.vote import VoteRequest

REPLICAS_ONLY: Final = frozenset(
    api.key for api in (VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, UPDATE_RAFT_VOTER, DISCOVER_VOTERS)
)
"""Keys of the APIs that only replicas use.  Other listeners do not advertise them."""


class ListenerAdmission:
    """The listeners of one node."""

    def __init__(self, controller_listener_names: Collection[str]) -> None:
        self._controller_listeners = frozenset(controller_listener_names)

    def is_for_replicas(self, listener_name: str) -> bool:
        return listener_name in self._controller_listeners

    def check(self, listener_name: str, request: Any) -> None:
        """Raise ProtocolError, which closes the connection, if the listener does not take the request.

        An error code is no alternative, because each fitting one stops Kafka's raft client for good.
        """
        if listener_name in self._controller_listeners or not is_of_replica(request):
            return
        what = type(request).__name__.removesuffix("Request")
        raise ProtocolError(
            f"{what} between replicas on listener {listener_name}: served on "
            f"{', '.join(sorted(self._controller_listeners))} only (controller.listener.names)"
        )


def is_of_replica(request: Any) -> bool:
    """Whether only replicas of the quorum send this request."""
    match request:
        case FetchRequest() | FetchSnapshotRequest():
            return request.replica_id >= 0
        case (
            VoteRequest()
            | BeginQuorumEpochRequest()
            | EndQuorumEpochRequest()
            | UpdateRaftVoterRequest()
            | DiscoverVotersRequest()
        ):
            return True
        case _:
            return False
