"""The output below a step of a script: what has happened since the last step, in words, made from the trace.

First come the events in order, each with its cause, and no line twice.  Then comes what has changed: which leader the
nodes follow, and how far each log goes.  Times are left out, because only the order counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from kraft_trio.actors.context.restored_voters import CAUGHT_UP, OLD_COPY
from kraft_trio.actors.context.shared_node_id import FORMER_DISK, SHARED
from kraft_trio.messages import QuorumView
from kraft_trio.protocol.roles import Follower, Leader, Prospective
from kraft_trio.simulation.facts.history import ADMINISTRATION, Operation, Outcome
from kraft_trio.tracing.events import TraceEvent

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster

_KEY: Final = re.compile(r"\b(\d+)-([\w-]{22})(?![\w-])")
"""A replica key within a text."""

_EXPECTED_ENDS: Final = ("killed", "stopped", "crashed")
"""How a process ends if a step has ended it, which the script says already."""

_BY: Final = {
    "HIGHER_EPOCH_SEEN": "it hears of epoch {epoch}",
    "ELECTION_TIMED_OUT": "no leader to be found",
    "FETCH_TIMED_OUT": "no answer from its leader",
}
"""The cause of a change of role, by the event in the transition table."""


@attrs.frozen
class NodeSummary:
    """The state of one node between two steps.  The last lines of an output show what has changed."""

    leader_id: int | None
    epoch: int
    log_end: int
    """Exclusive, like the high watermark."""
    high_watermark: int | None
    voters: tuple[str, ...]
    """Each voter as its id, with a prime for each earlier disk of the machine."""

    def log(self) -> str:
        if self.log_end == 0:
            return "log empty"
        if self.high_watermark is None:
            return f"log to {self.log_end}, nothing known to be committed"
        committed = "all committed" if self.log_end == self.high_watermark else f"committed to {self.high_watermark}"
        return f"log to {self.log_end}, {committed}"

    def leadership(self) -> str:
        leader = "no leader" if self.leader_id is None else f"leader {self.leader_id}"
        return f"{leader} in epoch {self.epoch}"

    def voter_set(self) -> str:
        return f"voters {' '.join(self.voters) or 'unknown'}"


class Narrator:
    """Listens to the trace of one cluster from the start; `told` returns the lines since the previous call."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lines: dict[str, None] = {}
        self._summaries: dict[int, NodeSummary] = {}
        self._pending_told: set[str] = set()
        self.pushed: int | None = None
        """The node that the step makes campaign, which the output need not repeat."""
        cluster.trace.listeners.append(self._heard)

    def told(self) -> list[str]:
        """The new lines.  Operations without an answer are named once."""
        for operation in self._cluster.history.operations:
            if operation.is_pending and operation.name not in self._pending_told:
                self._pending_told.add(operation.name)
                self._say(f"{_described(operation)} not answered yet")
        lines = [*self._lines, *self._changes()]
        self._lines = {}
        return lines

    def _say(self, line: str) -> None:
        self._lines[_KEY.sub(self._incarnation, line)] = None

    def _incarnation(self, match: re.Match[str]) -> str:
        """A replica key as its id, with a prime for each earlier disk of the machine."""
        node_id = int(match[1])
        keys = [str(replica.key) for replica in self._cluster.facts.replicas if replica.key.id == node_id]
        return match[1] + "'" * keys.index(match[0]) if match[0] in keys else match[0]

    def _heard(self, event: TraceEvent) -> None:
        tell = _OF_LOG_LINE.get(event.cause) if event.kind == "log" else _OF_EVENT.get(event.kind)
        is_pushed = self.pushed is not None and event.node == self.pushed
        if tell is not None and not (is_pushed and event.details.get("role") in {"Prospective", "Candidate"}):
            for line in tell(self._cluster, event):
                self._say(line)

    # What has changed

    def _changes(self) -> Iterator[str]:
        before, now = self._summaries, self._present()
        self._summaries = {**before, **now}
        changed = {node: summary for node, summary in now.items() if before.get(node) != summary}
        for describe in (NodeSummary.leadership, NodeSummary.log, NodeSummary.voter_set):
            yield from _grouped(changed, before, describe)

    def _present(self) -> dict[int, NodeSummary]:
        present: dict[int, NodeSummary] = {}
        for node_id, node in self._cluster.nodes.items():
            view = node.view
            present[node_id] = NodeSummary(
                _known_leader(view),
                view.epoch,
                node.log.end_offset,
                node.high_watermark,
                tuple(_KEY.sub(self._incarnation, str(voter.key)) for voter in view.voters),
            )
        return present


def _known_leader(view: QuorumView) -> int | None:
    """The leader of the node's epoch.  A node that doubts its leader, and asks for pre-votes, still knows it."""
    return view.role.leader_id if isinstance(view.role, Prospective) else view.leader_id


def _grouped(
    changed: Mapping[int, NodeSummary],
    before: Mapping[int, NodeSummary],
    describe: Callable[[NodeSummary], str],
) -> Iterator[str]:
    """One line for each description that is new for some nodes, with all of those nodes."""
    nodes_by_text: dict[str, list[int]] = {}
    for node_id, summary in changed.items():
        text = describe(summary)
        if node_id not in before or describe(before[node_id]) != text:
            nodes_by_text.setdefault(text, []).append(node_id)
    for text, nodes in nodes_by_text.items():
        yield f"{' '.join(map(str, nodes))}: {text}"


# How single events read


def _role(cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """A log line "role": the change and its cause.  The role before is the one that the node has published last."""
    node, details = event.node, event.details
    role, was, by, epoch = details["role"], details["was"], str(details["by"]), details["epoch"]
    why = _BY.get(by, "").format(epoch=epoch)
    if by == "FETCH_TIMED_OUT" and _was_told_that_its_leader_resigned(cluster, node):
        why = "its leader has resigned"
    if role == "Resigned":
        yield f"{node} resigns from epoch {epoch}: {details['reason'] or 'it shuts down'}"
    elif was in {"Leader", "Resigned"} and by == "HIGHER_EPOCH_SEEN":
        yield f"{node} no longer leads: {why}"
    elif role == "Prospective" and by != "VOTE_GRANTED":
        is_witness = node in cluster.setup.witnesses
        yield f"{node} {'lets others campaign' if is_witness else 'asks for pre-votes'} in epoch {epoch}: {why}"
    elif role == "Candidate":
        yield f"{node} campaigns in epoch {epoch}"


def _was_told_that_its_leader_resigned(cluster: Cluster, node_id: int | None) -> bool:
    assert node_id is not None
    replica = cluster.machines[node_id].replica
    role = None if replica is None or replica.view is None else replica.view.role
    return isinstance(role, Follower) and role.leader_resigned


def _published_role(cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """An event "role": how a process begins, and who elected a leader."""
    assert event.node is not None
    replica = cluster.machines[event.node].replica
    view = None if replica is None else replica.view
    if event.details["was"] is None:
        yield f"{event.node} starts as {event.role} in epoch {event.epoch}, log to {event.log_end}"
    if view is not None and isinstance(view.role, Leader):
        granting = " ".join(str(key) for key in sorted(view.role.granting_voters))
        yield f"{event.node} leads epoch {event.epoch}, elected by {granting}"


def _vote(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """A log line "vote requested": refusals, and every real vote."""
    details = event.details
    candidate, epoch, reason = details["candidate"], details["epoch"], details["reason"]
    if details["pre_vote"]:
        if not details["granted"]:
            yield f"{event.node} refuses {candidate} a pre-vote in epoch {epoch}: {reason}"
    elif details["granted"]:
        yield f"{event.node} votes for {candidate} in epoch {epoch}"
    else:
        yield f"{event.node} refuses {candidate} its vote in epoch {epoch}: {reason}"


def _truncated(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    to = str(event.details["to"]).partition("@")[0]
    end, _, epoch = str(event.details["leader_said"]).partition("@")
    log_end = event.details["end_offset"]
    yield f"{event.node} cuts its log from {log_end} back to {to}: its leader's epoch {epoch} ends at {end}"


def _lost_records(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} tells that offsets {event.details['first']} to {event.details['last']} had been committed"


def _kept_records(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} keeps offsets {event.details['first']} to {event.details['last']}, which had been committed"


def _replaced(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    snapshot_id, dropped = event.details["snapshot_id"], event.details["batches"]
    uncommitted = f", dropping {dropped} uncommitted batches" if dropped else ""
    yield f"{event.node} puts snapshot {snapshot_id} in the place of its log{uncommitted}"


def _trimmed(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} trims its log, which begins at {event.details['to']} now"


def _snapshot_taken(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} takes snapshot {event.details['snapshot_id']}"


def _voter_change(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} appends at {event.details['offset']}: {event.details['change']}"


def _reassignment(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """Steps are told when they are appended, so only waits and the hand-over are left."""
    status = str(event.details["status"])
    if status.startswith(("waiting", "only", "handing")):
        yield f"{event.node} reassigns: {status}"


def _torn_tail(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} cuts a torn tail off its log: {event.details.get('reason') or 'no whole batch there'}"


def _poisoned(cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """A process that has been killed already sees every storage call fail; that is not told."""
    if event.node is not None and cluster.machines[event.node].is_running:
        yield f"{event.node} poisons its storage: {event.details['reason']}"


def _ended(cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    assert event.node is not None
    failure = cluster.machines[event.node].failure
    if failure is not None:
        yield f"{event.node} ends: {failure}"
    elif not event.cause.startswith(_EXPECTED_ENDS):
        yield f"{event.node} ends: {event.cause}"


def _operation(cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    number, client = event.details["number"], event.details["client"]
    operation = next(o for o in cluster.history.operations if (o.client, o.number) == (client, number))
    match operation.outcome:
        case Outcome.OK if operation.kind == "append":
            yield f"{_described(operation)} acknowledged at {_joined(operation.offsets)}"
        case Outcome.OK if operation.kind in ADMINISTRATION:
            yield f"{operation.asks}: done"
        case Outcome.OK:
            yield f"{_described(operation)} gives {_quoted(operation.values) or 'nothing'}"
        case Outcome.FAIL:
            yield f"{_described(operation)} failed: {operation.problem}"
        case Outcome.UNKNOWN:
            yield f"{_described(operation)} may or may not have happened: {operation.problem}"


def _stranger(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} answers the stranger's {event.details['api']}: {event.cause}"


def _shared_id(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """The twin of a node is not a node of the cluster."""
    who = "the twin" if event.node is None else str(event.node)
    reason = _KEY.sub(lambda match: f"another {match[1]}", str(event.details["reason"]))
    yield f"{who}: {event.cause}: {reason}"


def _old_copy(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    told = event.details
    held = f"{told['came_back_at']}, had acknowledged {told['acknowledged']}"
    yield f"{event.node}: voter {told['voter']} came back at {held}"


def _caught_up(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node}: voter {event.details['voter']} has caught up at {event.details['offset']}"


def _error(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node}: {event.cause}: {event.details.get('reason', '')}".removesuffix(": ")


def _described(operation: Operation) -> str:
    if operation.kind in ADMINISTRATION:
        return operation.asks
    what = _quoted(operation.values) if operation.kind == "append" else "read"
    return what if operation.via is None else f"{what} via {operation.via}"


def _quoted(values: Iterable[bytes]) -> str:
    return " ".join(f'"{value.decode("utf-8", "backslashreplace")}"' for value in values)


def _joined(values: Iterable[Any]) -> str:
    return " ".join(map(str, values))


Tell = Callable[["Cluster", TraceEvent], Iterator[str]]


def _advertised(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node} hears that {event.details['voter']} is at {event.details['endpoint']}"


_OF_LOG_LINE: Final[Mapping[str, Tell]] = {
    "role": _role,
    "vote requested": _vote,
    "truncated": _truncated,
    "committed records truncated": _lost_records,
    "truncation of committed records refused": _kept_records,
    "voter change appended": _voter_change,
    "reassignment": _reassignment,
    "torn tail cut": _torn_tail,
    "storage poisoned": _poisoned,
    "records from the leader refused": _error,
    "snapshot taken": _snapshot_taken,
    "damaged snapshot ignored": _error,
    SHARED: _shared_id,
    FORMER_DISK: _shared_id,
    OLD_COPY: _old_copy,
    CAUGHT_UP: _caught_up,
    "voter advertised": _advertised,
}
"""How a log line of a node reads, by its text."""

_OF_EVENT: Final[Mapping[str, Tell]] = {
    "role": _published_role,
    "replace": _replaced,
    "trim": _trimmed,
    "end": _ended,
    "operation": _operation,
    "stranger": _stranger,
}
"""How other events read, by their kind."""
