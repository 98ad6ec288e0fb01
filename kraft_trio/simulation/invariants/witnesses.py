"""What a witness may do: lead last, and hand over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Leader, Prospective
from kraft_trio.protocol.types import OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.witness import MAJORITIES
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import Replica
from kraft_trio.simulation.facts.run_facts import RunFacts
from kraft_trio.simulation.facts.voter_sets import is_member
from kraft_trio.simulation.invariants.invariant import Invariant, Reporter
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.apis.fetch import FETCH, FetchResponse
from kraft_trio.wire.apis.vote import VOTE, VoteRequest
from kraft_trio.wire.error_codes import ErrorCode


@attrs.define
class _Heard:
    """What a witness has heard since it last took records from a leader, or led."""

    is_needed: bool = False
    """Whether a voter whose log is behind has asked for a vote."""
    campaigns: int = 0
    """How often it has become Prospective."""


class WitnessesLeadLast(Invariant):
    """While another voter can win, an election of a witness costs the quorum a leader that its clients cannot use.
    Another voter can, unless its log is behind that of the witness, and then it asks the witness for a vote and is
    refused.  So a witness leads only after such a request, or after it has found several times that it would win and
    nobody has used the time (`protocol.witness`).  A voter without others needs no request."""

    number = 26
    title = "a witness leads only if a voter is behind it, or nobody has campaigned for long"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._heard: dict[ReplicaKey, _Heard] = {}

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if replica.key.id in self.facts.witnesses:
            self._heard[replica.key] = _Heard()

    def message_delivered(self, message: Message) -> None:
        if message.api_key != VOTE.key or not message.is_request:
            return  # Most messages are others, which need not be decoded.
        witness, request = self.facts.replica_at(message.target), message.value
        if witness is None or witness.key.id not in self.facts.witnesses or not isinstance(request, VoteRequest):
            return
        theirs = OffsetAndEpoch(request.last_offset, request.last_offset_epoch)
        if not theirs.is_at_least_as_up_to_date_as(_log_end(witness)):
            self._heard.setdefault(witness.key, _Heard()).is_needed = True

    def role_changed(self, replica: Replica, old: QuorumView | None, new: QuorumView) -> None:
        if replica.key.id not in self.facts.witnesses or (old is not None and old.stamp == new.stamp):
            return
        heard = self._heard.setdefault(replica.key, _Heard())
        if isinstance(new.role, Prospective):
            heard.campaigns += 1
        elif isinstance(new.role, Leader):
            voters = self.facts.voters.newest(replica)
            is_alone = len(voters) == 1 and is_member(voters, replica.key)
            if not (heard.is_needed or heard.campaigns >= MAJORITIES or is_alone):
                fact = f"no voter whose log is behind has asked witness {replica.key} for a vote"
                times = f"it leads epoch {new.epoch} after {heard.campaigns} rounds of pre-votes"
                self.violated(fact, times, (replica.key.id,))


_ENOUGH_FETCHES: Final = 3
"""A resignation takes effect a step or two after the fetch that causes it."""


class WitnessesHandOver(Invariant):
    """A voter that has the whole log of a witness, all of it committed, wins against every other log.  So the witness
    resigns as soon as one fetches from there.  It appends no records of clients, which would only put that off."""

    number = 27
    title = "a witness that leads appends nothing of clients, and resigns once another voter has its whole log"

    def __init__(self, facts: RunFacts, report: Reporter) -> None:
        super().__init__(facts, report)
        self._fetches: dict[tuple[ReplicaKey, int], int] = {}
        """By witness and epoch, how many answered requests came from the end of its whole, committed log."""

    def appended(self, replica: Replica, entries: Sequence[Entry], by_leader: bool) -> None:
        if by_leader and replica.key.id in self.facts.witnesses and not all(entry.is_control for entry in entries):
            fact = f"{replica.key} is a witness"
            self.violated(fact, f"it appends records of clients at {entries[0].base_offset}", (replica.key.id,))

    @classmethod
    def looks_at(cls, api_key: int, *, is_request: bool) -> bool:
        return api_key == FETCH.key and not is_request

    def message_sent(self, message: Message) -> None:
        witness, sender = self.facts.replica_at(message.source), self.facts.replica_at(message.target)
        if witness is None or sender is None or witness.key.id not in self.facts.witnesses or message.request is None:
            return
        view, request, response = witness.view, message.request.value, message.value
        if view is None or not witness.is_leader or not isinstance(response, FetchResponse):
            return
        if any(partition.error != ErrorCode.none for partition in response.partitions):
            return
        is_current = any(
            partition.current_leader_epoch == view.epoch and partition.fetch_offset == witness.log_end
            for partition in request.partitions
        )
        is_whole = is_current and witness.high_watermark == witness.log_end
        if not is_whole or not is_member(self.facts.voters.newest(witness), sender.key):
            return
        of_epoch = (witness.key, view.epoch)
        self._fetches[of_epoch] = self._fetches.get(of_epoch, 0) + 1
        if self._fetches[of_epoch] > _ENOUGH_FETCHES:
            fact = f"{sender.key} has fetched all that witness {witness.key} has"
            self.violated(fact, f"the witness still leads epoch {view.epoch}", (witness.key.id, sender.key.id))


def _log_end(replica: Replica) -> OffsetAndEpoch:
    last = replica.entries[-1] if replica.entries else None
    return OffsetAndEpoch(0, 0) if last is None else OffsetAndEpoch(last.next_offset, last.epoch)
