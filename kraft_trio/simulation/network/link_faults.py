"""Faults between two hosts: kinds of blocks, partitions made of them, and the fates of single frames."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum, IntFlag
from typing import Any, TypeAlias

import attrs

from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.message import Message
from kraft_trio.wire.descriptor import Api


class Blocked(IntFlag):
    """The traffic from one host to another that is blocked."""

    NOTHING = 0
    REQUESTS = 1
    """Requests, on the connections that the sender opened, except ApiVersions, with which a connection begins."""
    ANSWERS = 2
    """Answers, on the connections that the other host opened, except those to ApiVersions."""
    HANDSHAKES = 4
    """Whatever opens and ends connections: SYN, FIN, RST, and ApiVersions with its answers."""
    EVERYTHING = 7


BlockedBetween: TypeAlias = Callable[[str, str], Blocked]
"""Returns the blocked traffic from the first host to the second."""


class Manner(Enum):
    """What becomes of blocked traffic."""

    SILENT = "silent"
    """It is lost.  Connections stay.  TCP sends again, less and less often, so the data arrives some time after the
    block has ended.  New connections wait."""
    RESET = "reset"
    """Connections are reset at once; new ones are refused."""
    CLOG = "clog"
    """It waits, and arrives as soon as the block ends."""


@attrs.frozen(eq=False)
class Cut:
    """One cause of blocked links, until it is healed.  Cuts add up."""

    blocked: BlockedBetween
    manner: Manner
    description: str


class FrameFate(Enum):
    """The fate of one frame."""

    DELIVER = "deliver"
    RESET = "reset"
    """It is lost with its connection; both ends see a reset."""
    CUT = "cut"
    """Part of it arrives; then both ends see a reset."""
    DUPLICATE = "duplicate"
    """It arrives twice.  Its sender sees a reset and no answer.  Later the network delivers it again over a connection
    of its own, and nobody reads that answer either.  Only requests are duplicated, and a request that a cut stops is
    delivered once."""


@attrs.define(eq=False)
class PlannedFault:
    """The next `times` frames to which `applies` meet this fate."""

    applies: Callable[[Message], bool]
    fate: FrameFate
    times: int


def frames_of(
    api: Api[Any, Any], *, is_request: bool, source: str | None = None, target: str | None = None
) -> Callable[[Message], bool]:
    """A predicate for requests, or responses, of that API between these hosts; None means any host."""

    def applies(message: Message) -> bool:
        return (
            message.api_key == api.key
            and message.is_request is is_request
            and source in (None, message.source)
            and target in (None, message.target)
        )

    return applies


def _check_probability(instance: object, attribute: attrs.Attribute[float], value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise ValueError(f"{attribute.name}={value}: a probability from 0.0 to 1.0 was expected")


@attrs.frozen
class LinkSettings:
    """How one direction between two hosts behaves while it is not cut.  Probabilities are per frame."""

    latency: Latency = attrs.field(factory=lambda: Latency.uniform(0.0002, 0.002))
    loss: float = attrs.field(default=0.0, validator=_check_probability)
    """A frame is lost.  TCP sends it again 0.2 s later, then 0.6 s later, and so on, and all frames behind it wait."""
    reset: float = attrs.field(default=0.0, validator=_check_probability)
    cut_frames: float = attrs.field(default=0.0, validator=_check_probability)
    duplicates: float = attrs.field(default=0.0, validator=_check_probability)


# Partitions


def between_groups(groups: Sequence[Collection[str]]) -> BlockedBetween:
    """Hosts of different groups are cut off from each other; hosts in no group are unaffected."""
    group_of = {host: number for number, group in enumerate(groups) for host in group}
    named = [host for group in groups for host in group]
    if len(group_of) != len(named):
        twice = sorted({host for host in named if named.count(host) > 1})
        raise ValueError(f"groups: {', '.join(twice)} named twice, each host in one group was expected")

    def blocked(source: str, target: str) -> Blocked:
        is_across = source in group_of and target in group_of and group_of[source] != group_of[target]
        return Blocked.EVERYTHING if is_across else Blocked.NOTHING

    return blocked


def around(host: str, others: Collection[str] | None = None) -> BlockedBetween:
    """Cut that host off from the named ones, or from all others."""
    return lambda source, target: (
        Blocked.EVERYTHING
        if source != target
        and host in (source, target)
        and (others is None or (target if source == host else source) in others)
        else Blocked.NOTHING
    )


def all_but_neighbours(ring: Sequence[str]) -> BlockedBetween:
    """Each host of the ring reaches only its two neighbours; hosts outside are unaffected."""
    place = {host: number for number, host in enumerate(ring)}
    if len(place) != len(ring):
        raise ValueError(f"ring: {', '.join(ring)}, each host once was expected")

    def blocked(source: str, target: str) -> Blocked:
        if source not in place or target not in place:
            return Blocked.NOTHING
        distance = abs(place[source] - place[target])
        return Blocked.NOTHING if distance in (0, 1, len(ring) - 1) else Blocked.EVERYTHING

    return blocked


def on_link(source: str, target: str, what: Blocked) -> BlockedBetween:
    """Only the traffic `what` from `source` to `target` is blocked."""
    return lambda a, b: what if (a, b) == (source, target) else Blocked.NOTHING
