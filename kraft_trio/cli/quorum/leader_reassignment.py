"""Asks the leader to reassign the voters, and follows it until they are the target (KIP-642)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from kraft_trio.cli.quorum.reassignment_plan import names_of
from kraft_trio.cli.quorum.voter_change_run import LOOK_AGAIN_S, ChangeRefused, ChangeRun
from kraft_trio.client.admin import VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState
from kraft_trio.errors import OutcomeUnknownError, UnsupportedVersionError
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.error_codes import ErrorCode

_REFUSALS: Final = {
    ErrorCode.invalid_replica_assignment: "",
    ErrorCode.invalid_replication_factor: "",
    ErrorCode.unsupported_version: "the voters cannot be reassigned: ",
    ErrorCode.not_controller: "no leader accepted the target in time: ",
    ErrorCode.request_timed_out: "the target has not committed in time: ",
}


class LeaderDoesNotReassignError(Exception):
    """The leader reassigns no voters, like Kafka's controllers."""


@attrs.frozen
class LeaderReassignment:
    """`name` is the target in words.  `is_wanted` says whether these replicas are the target."""

    changes: ChangeRun
    name: str
    is_wanted: Callable[[Iterable[ReplicaState]], bool]

    async def follow(
        self, quorum: QuorumDescription, show: Callable[[QuorumDescription], None], wait_s: float = math.inf
    ) -> QuorumDescription:
        """Show the quorum, and look again until it has these voters.  Return it then.

        Raises ChangeRefused if the target is given up, and OutcomeUnknownError if it is not reached in time.
        """
        deadline = trio.current_time() + wait_s
        while True:
            show(quorum)
            if self.is_reached(quorum):
                return quorum
            if not self.is_wanted(quorum.target_voters) and not _is_uncommitted(quorum):
                raise ChangeRefused(self._given_up(quorum))
            if trio.current_time() > deadline:
                doing = quorum.reassignment_status or "the leader begins"
                raise OutcomeUnknownError(
                    f"not within {wait_s:g} s: {doing}; the leader continues (`reassign --cancel`)"
                )
            await trio.sleep(LOOK_AGAIN_S)
            quorum = await self.changes.describe()

    def is_reached(self, quorum: QuorumDescription) -> bool:
        """Whether these are the committed voters, and nothing is left to do."""
        return not quorum.target_voters and not _is_uncommitted(quorum) and self.is_wanted(quorum.voters)

    def _given_up(self, quorum: QuorumDescription) -> str:
        voters = names_of(state.key for state in quorum.voters)
        if quorum.target_voters:
            target = names_of(state.key for state in quorum.target_voters)
            return f"somebody else has set another target, {target}: the voters are {voters}"
        return (
            f"the reassignment to {self.name} was cancelled, or a leader of Kafka has dropped its target: "
            f"the voters are {voters}"
        )


async def set_target(changes: ChangeRun, target: Sequence[int | ReplicaKey] | None) -> None:
    """Ask the leader to reassign the voters.  None cancels the reassignment.

    Raises LeaderDoesNotReassignError, ChangeRefused, OutcomeUnknownError, and the other errors of AdminClient.
    """
    try:
        await changes.client.alter_partition_reassignments(target, timeout_ms=changes.timeout_ms)
    except UnsupportedVersionError as error:
        raise LeaderDoesNotReassignError from error
    except VoterChangeError as error:
        if error.error == ErrorCode.unknown_topic_or_partition:
            # For Kafka's controllers it is the partition of no topic.
            raise LeaderDoesNotReassignError from error
        if error.error not in _REFUSALS:
            raise
        reason = f"{_REFUSALS[error.error]}{error.reason or ''}"
        if error.error == ErrorCode.request_timed_out:
            raise OutcomeUnknownError(f"{reason}; run the command again to find out") from error
        raise ChangeRefused(f"refused: {reason}") from error


def _is_uncommitted(quorum: QuorumDescription) -> bool:
    """Whether the leader's log may still change, as after an election."""
    return bool(quorum.committed_voters) or quorum.high_watermark < 0
