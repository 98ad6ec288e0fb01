"""How single events of the trace read in the output of a script."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from kraft_trio.actors.context.restored_voters import CAUGHT_UP, OLD_COPY
from kraft_trio.actors.context.shared_node_id import FORMER_DISK, SHARED
from kraft_trio.protocol.roles import Follower, Leader
from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.facts.history import ADMINISTRATION, Operation, Outcome
from kraft_trio.tracing.events import TraceEvent

Tell: TypeAlias = Callable[[Cluster, TraceEvent], Iterable[str]]

REPLICA_KEY: Final = re.compile(r"\b(\d+)-([\w-]{22})(?![\w-])")
"""A replica key within a text."""

_EXPECTED_ENDS: Final = ("killed", "stopped", "crashed")
"""How a process ends if a step has ended it, which the script says already."""

_BY: Final = {
    "HIGHER_EPOCH_SEEN": "it hears of epoch {epoch}",
    "ELECTION_TIMED_OUT": "no leader to be found",
    "FETCH_TIMED_OUT": "no answer from its leader",
}
"""The cause of a change of role, by the event in the transition table."""


def _template(text: str) -> Tell:
    """One line with the node and the details of the event."""
    return lambda _cluster, event: [text.format(event, **event.details)]


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


def _replaced(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    snapshot_id, dropped = event.details["snapshot_id"], event.details["batches"]
    uncommitted = f", dropping {dropped} uncommitted batches" if dropped else ""
    yield f"{event.node} puts snapshot {snapshot_id} in the place of its log{uncommitted}"


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
            yield f"{described(operation)} acknowledged at {_joined(operation.offsets)}"
        case Outcome.OK if operation.kind in ADMINISTRATION:
            yield f"{operation.asks}: done"
        case Outcome.OK:
            yield f"{described(operation)} gives {_quoted(operation.values) or 'nothing'}"
        case Outcome.FAIL:
            yield f"{described(operation)} failed: {operation.problem}"
        case Outcome.UNKNOWN:
            yield f"{described(operation)} may or may not have happened: {operation.problem}"


def _shared_id(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    """The twin of a node is not a node of the cluster."""
    who = "the twin" if event.node is None else str(event.node)
    reason = REPLICA_KEY.sub(lambda match: f"another {match[1]}", str(event.details["reason"]))
    yield f"{who}: {event.cause}: {reason}"


def _error(_cluster: Cluster, event: TraceEvent) -> Iterator[str]:
    yield f"{event.node}: {event.cause}: {event.details.get('reason', '')}".removesuffix(": ")


def described(operation: Operation) -> str:
    if operation.kind in ADMINISTRATION:
        return operation.asks
    what = _quoted(operation.values) if operation.kind == "append" else "read"
    return what if operation.via is None else f"{what} via {operation.via}"


def _quoted(values: Iterable[bytes]) -> str:
    return " ".join(f'"{value.decode("utf-8", "backslashreplace")}"' for value in values)


def _joined(values: Iterable[Any]) -> str:
    return " ".join(map(str, values))


_OF_LOG_LINE: Final[Mapping[str, Tell]] = {
    "role": _role,
    "vote requested": _vote,
    "truncated": _truncated,
    "committed records truncated": _template("{0.node} tells that offsets {first} to {last} had been committed"),
    "truncation of committed records refused": _template(
        "{0.node} keeps offsets {first} to {last}, which had been committed"
    ),
    "voter change appended": _template("{0.node} appends at {offset}: {change}"),
    "reassignment": _reassignment,
    "torn tail cut": _torn_tail,
    "storage poisoned": _poisoned,
    "records from the leader refused": _error,
    "snapshot taken": _template("{0.node} takes snapshot {snapshot_id}"),
    "damaged snapshot ignored": _error,
    SHARED: _shared_id,
    FORMER_DISK: _shared_id,
    OLD_COPY: _template("{0.node}: voter {voter} came back at {came_back_at}, had acknowledged {acknowledged}"),
    CAUGHT_UP: _template("{0.node}: voter {voter} has caught up at {offset}"),
    "voter advertised": _template("{0.node} hears that {voter} is at {endpoint}"),
}
"""How a log line of a node reads, by its text."""

_OF_EVENT: Final[Mapping[str, Tell]] = {
    "role": _published_role,
    "replace": _replaced,
    "trim": _template("{0.node} trims its log, which begins at {to} now"),
    "end": _ended,
    "operation": _operation,
    "stranger": _template("{0.node} answers the stranger's {api}: {0.cause}"),
}
"""How other events read, by their kind."""


def telling_of(event: TraceEvent) -> Tell | None:
    """What says how this event reads; None if the output leaves it out."""
    return _OF_LOG_LINE.get(event.cause) if event.kind == "log" else _OF_EVENT.get(event.kind)
