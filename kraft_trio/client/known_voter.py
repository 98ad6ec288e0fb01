"""Whether a running quorum knows the voter that `kraft storage format` is about to make.

A voter whose disk is not mounted looks like a new one.  Formatted again, it has neither its vote nor its log, and a
majority that counts on it may lose records that were acknowledged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import UNKNOWN, NoLeader, QuorumDescription
from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import Endpoint, ReplicaKey
from kraft_trio.wire.network import Network
from kraft_trio.wire.tcp_network import TcpNetwork

OVERRIDE: Final = "--unsafe-format-again"

_ANSWER_MS: Final = 2000
_FIND_LEADER_MS: Final = 2000
_ELECTION_MS: Final = 10_000
"""For a quorum that may be electing its first leader: voters that are formatted at once start one before the other."""
_FIRST_EPOCH: Final = 1


async def refuse_known_voter(
    others: Sequence[Endpoint], cluster_id: str, key: ReplicaKey, network: Network | None = None
) -> None:
    """Ask the other voters.  Raises StorageError if formatting could lose records.

    If no node answers, nothing is known, as before the first start of a quorum.
    """
    if not others:
        return
    client = AdminClient(others, request_timeout_ms=_ANSWER_MS, network=network)
    answer = await client.describe_metadata_quorum(_FIND_LEADER_MS)
    reason = why_known(answer, cluster_id, key)
    if reason is not None and isinstance(answer, NoLeader):
        later = await client.describe_metadata_quorum(_ELECTION_MS)
        reason = reason if isinstance(later, NoLeader) else why_known(later, cluster_id, key)
    if reason is not None:
        asked = ",".join(map(str, others))
        connecting = "" if network is None or isinstance(network, TcpNetwork) else " --command-config FILE"
        raise StorageError(
            f"refused: {reason}: a voter that is formatted again could lose acknowledged records; mount its disk, or, "
            "if the disk is lost, format with --no-initial-controllers, start the node, and run `kraft metadata-quorum "
            f"--bootstrap-controller {asked}{connecting} replace -i {key.id}` ({OVERRIDE} formats a voter that has "
            "never run)"
        )


def why_known(answer: QuorumDescription | NoLeader, cluster_id: str, key: ReplicaKey) -> str | None:
    """What shows that the voter may have run before, or None.

    In epoch 1, the leader has seen every Fetch, so a voter that it has not seen is new: voters may be formatted and
    started one after the other.  A later leader does not know what a voter did before.
    """
    if answer.cluster_id not in (None, cluster_id):
        return None
    if isinstance(answer, NoLeader):
        past = next((view for view in answer.views if (view.leader_epoch or 0) >= _FIRST_EPOCH), None)
        return None if past is None else f"{past.endpoint} runs this cluster and is in epoch {past.leader_epoch}"
    running = f"the running quorum, which node {answer.leader_id} leads in epoch {answer.leader_epoch}"
    state = answer.voter_of_id(key.id)
    if state is None:
        return f"{key} is not a voter of {running}"
    never_fetched = state.last_fetch_timestamp_ms == state.log_end_offset == UNKNOWN
    if state.key == key and answer.leader_epoch == _FIRST_EPOCH and never_fetched:
        return None
    return f"{state.key} is a voter of {running}"
