"""Asks the leader, on this node or another, to hand over to a voter of the application's choice."""

from __future__ import annotations

from typing import Final

import trio

from kraft_trio.actors.context.leader_asker import LeaderAsker
from kraft_trio.channels import Reply, deliver
from kraft_trio.errors import NetworkError, OutcomeUnknownError, RefusedError
from kraft_trio.messages import QuorumView, TransferLeadershipReceived
from kraft_trio.wire.api import TRANSFER_LEADERSHIP
from kraft_trio.wire.apis.transfer_leadership import (
    MOST_HAND_OVERS,
    TransferLeadershipRequest,
    TransferLeadershipResponse,
)
from kraft_trio.wire.error_codes import ErrorCode

WHAT: Final = "transfer leadership"


class TransferAsker(LeaderAsker):
    """Repeats the request at each new leader until the chosen voter leads."""

    async def transfer(self, voter_id: int, timeout_ms: int) -> int:
        """Return the epoch that the voter leads.

        Raises RefusedError, OutcomeUnknownError when the time is over or leaders have resigned in vain,
        UnsupportedVersionError and NodeClosedError.
        """
        deadline, problem = trio.current_time() + timeout_ms / 1000, "no leader was known"
        resigned, may_have_resigned = 0, False
        # The leader itself keeps the deadline.  The extra time is for its answer.
        with trio.move_on_at(deadline + self._context.config.request_timeout_ms / 1000):
            while trio.current_time() < deadline:
                view = await self._until(WHAT, lambda view: view.leader_id is not None)
                problem = f"node {view.leader_id} was asked and did not answer"
                try:
                    answer = await self._ask(view, voter_id, deadline)
                except NetworkError as error:
                    may_have_resigned, problem = True, str(error)
                    await trio.sleep(self._context.retry_backoff_s())
                    continue
                if answer.error == ErrorCode.none:
                    resigned, may_have_resigned = resigned + 1, True
                    if view.leader_id == voter_id:
                        return view.epoch
                    problem = f"node {view.leader_id} has resigned, and no successor was known"
                    view = await self._until(
                        WHAT,
                        lambda now, old=view.epoch: now.epoch > old and now.leader_id is not None,  # type: ignore[misc]
                    )
                    if view.leader_id == voter_id:
                        return view.epoch
                    problem = f"node {view.leader_id} was elected in epoch {view.epoch}"
                    if resigned == MOST_HAND_OVERS:
                        raise OutcomeUnknownError(f"{WHAT} to node {voter_id}: {resigned} leaders resigned: {problem}")
                elif answer.error == ErrorCode.not_leader_or_follower:
                    problem = answer.error_message or answer.error.name
                    await trio.sleep(self._context.retry_backoff_s())
                else:
                    refused = f"{WHAT} to node {voter_id}: {answer.error_message}"
                    if may_have_resigned:
                        raise OutcomeUnknownError(f"{refused}; but a leader may have resigned")
                    raise RefusedError(refused)
        raise OutcomeUnknownError(f"{WHAT} to node {voter_id}: not done in {timeout_ms} ms: {problem}")

    async def _ask(self, view: QuorumView, voter_id: int, deadline: float) -> TransferLeadershipResponse:
        reply: Reply[TransferLeadershipResponse] = Reply()
        if await deliver(view.voter_changes, TransferLeadershipReceived(voter_id, deadline, reply)):
            return await reply.receive()
        endpoint = self._endpoint_of_leader(view)
        if endpoint is None:
            reason = f"it is not known where leader {view.leader_id} listens"
            return TransferLeadershipResponse(ErrorCode.not_leader_or_follower, reason)
        left_ms = max(1, round((deadline - trio.current_time()) * 1000))
        request = TransferLeadershipRequest(self._context.cluster_id, voter_id, left_ms)
        wait_ms = left_ms + self._context.config.request_timeout_ms
        return await self._client.request_apart(endpoint, TRANSFER_LEADERSHIP, request, wait_ms)
