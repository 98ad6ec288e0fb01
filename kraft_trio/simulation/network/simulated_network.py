"""`SimulatedNetwork`: TCP between named hosts in one process, in virtual time, with faults that a seed decides."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from math import inf
from typing import Any, Final

import attrs
import trio

from kraft_trio.simulation.network.hosts import LOOPBACK, Hosts
from kraft_trio.simulation.network.latency import Latency
from kraft_trio.simulation.network.link import Link
from kraft_trio.simulation.network.link_faults import (
    Blocked,
    BlockedBetween,
    Cut,
    FrameFate,
    LinkSettings,
    Manner,
    PlannedFault,
    all_but_neighbours,
    around,
    between_groups,
    frames_of,
    on_link,
)
from kraft_trio.simulation.network.message import Message
from kraft_trio.simulation.network.simulated_stream import SimulatedConnection, SimulatedStream
from kraft_trio.simulation.network.version_cap import VersionCap
from kraft_trio.wire.api import API_VERSIONS
from kraft_trio.wire.descriptor import Api

DUPLICATE_DELAY_MAX_S: Final = 1.0
"""How much later, at most, the network delivers a request for the second time."""


class SimulatedNetwork(Hosts):
    """Hosts by name, the links between them, and what is wrong with those.

    Bytes of one connection arrive in order or not at all.  Cuts add up: a second partition does not replace the first;
    each method that makes one returns it, and `heal` ends one or all of them.  The hosts of a partition need not exist
    yet.  Traffic of a host with itself has no latency and no faults.

    `on_message` is called with each whole frame when it is sent, and again when it is delivered; it must not wait.
    All randomness comes from `random_source`; each link draws from a stream of its own, so that what happens on one
    does not change what happens on another.
    """

    def __init__(self, random_source: random.Random, *, on_message: Callable[[Message], object] | None = None) -> None:
        super().__init__(random_source, on_message)
        self.requests_sent: Counter[tuple[str, int]] = Counter()
        """How many requests each host has sent, by API key."""
        self.faults: Counter[str] = Counter()
        """How many frames met each fate other than delivery, by its name, and "loss"."""
        self._planned: list[PlannedFault] = []
        self._caps: dict[str, VersionCap] = {}
        self._capped_connections: set[int] = set()
        """The open connections that began while one of their hosts passed for an older build; it does so to their
        end."""

    # Links

    def set_link(
        self,
        source: str,
        target: str,
        *,
        latency: Latency | None = None,
        loss: float | None = None,
        reset: float | None = None,
        cut_frames: float | None = None,
        duplicates: float | None = None,
    ) -> None:
        """Change how one direction between two hosts behaves from now on; what is None stays as it is.

        See LinkSettings.  Raises ValueError for a probability outside 0.0 to 1.0.
        """
        link = self.link(source, target)
        changes = _given(latency=latency, loss=loss, reset=reset, cut_frames=cut_frames, duplicates=duplicates)
        attrs.evolve(link.settings, **changes)
        link.own_settings |= changes
        self._apply_default(link)

    def reset_link(self, source: str, target: str) -> None:
        """Let that direction behave by the default again."""
        link = self.link(source, target)
        link.own_settings.clear()
        self._apply_default(link)

    def set_default_link(
        self,
        *,
        latency: Latency | None = None,
        loss: float | None = None,
        reset: float | None = None,
        cut_frames: float | None = None,
        duplicates: float | None = None,
    ) -> None:
        """The same for all links, except for what `set_link` has set and for the traffic of a host with itself."""
        changes = _given(latency=latency, loss=loss, reset=reset, cut_frames=cut_frames, duplicates=duplicates)
        self._default = attrs.evolve(self._default, **changes)
        for link in self._links.values():
            self._apply_default(link)

    def _apply_default(self, link: Link) -> None:
        link.apply(LOOPBACK if link.source == link.target else self._default)

    # Cuts

    def cut(self, blocked: BlockedBetween, manner: Manner = Manner.SILENT, description: str = "cut") -> Cut:
        """Block from now on what `blocked` says."""
        cut = Cut(blocked, manner, description)
        self._cuts.append(cut)
        self._cuts_changed()
        return cut

    def heal(self, cut: Cut | None = None) -> None:
        """End that cut, or all of them, clogs included.  Healing what has been healed does nothing."""
        self._cuts = [] if cut is None else [other for other in self._cuts if other is not cut]
        self._cuts_changed()

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """Those in force, in the order they were made."""
        return tuple(self._cuts)

    def _cuts_changed(self) -> None:
        for link in list(self._links.values()):
            link.block_by(self._cuts)

    def partition(self, *groups: Collection[str], silent: bool = True) -> Cut:
        """Let hosts reach hosts of their own group only; hosts of no group are not concerned.

        `silent` loses what is sent; otherwise connections are reset and new ones refused.
        """
        names = [sorted(group) for group in groups]
        description = " | ".join(" ".join(group) for group in names)
        return self.cut(between_groups(names), _manner(silent), f"partition {description}")

    def isolate(self, host: str, others: Collection[str] | None = None, *, silent: bool = True) -> Cut:
        """Cut one host off from those others, or from everybody, clients included."""
        return self.cut(around(host, others), _manner(silent), f"isolate {host}")

    def bridge(self, host: str, left: Collection[str], right: Collection[str], *, silent: bool = True) -> Cut:
        """Cut two groups off from each other; only `host` reaches, and is reached by, both."""
        if host in left or host in right:
            raise ValueError(f"bridge {host}: a host in neither of the two groups was expected")
        names = [sorted(left), sorted(right)]
        description = f"bridge {host} between {' '.join(names[0])} | {' '.join(names[1])}"
        return self.cut(between_groups(names), _manner(silent), description)

    def ring(self, *hosts: str, silent: bool = True) -> Cut:
        """Let each of these hosts reach only the one before it and the one after it, the first follows the last."""
        return self.cut(all_but_neighbours(hosts), _manner(silent), f"ring {' '.join(hosts)}")

    def one_way(self, source: str, target: str, *, handshakes: bool = True) -> Cut:
        """Lose what `source` sends to `target`, requests and answers alike; the other way all arrives.

        Connections can still be opened, as across a path that passes small packets only: so the target goes on asking
        the source, and never hears an answer.  Without `handshakes` they cannot, in either direction, as TCP has it
        when every packet of one direction is lost.
        """
        what = Blocked.REQUESTS | Blocked.ANSWERS if handshakes else Blocked.EVERYTHING
        return self.cut(on_link(source, target, what), Manner.SILENT, f"one-way {source} -> {target}")

    def requests_only(self, source: str, target: str) -> Cut:
        """The requests of `source` reach `target`, the answers to them are lost."""
        return self.cut(on_link(target, source, Blocked.ANSWERS), Manner.SILENT, f"requests-only {source} -> {target}")

    def answers_only(self, source: str, target: str) -> Cut:
        """The requests of `source` to `target` are lost; answers to those it has sent before still arrive."""
        return self.cut(on_link(source, target, Blocked.REQUESTS), Manner.SILENT, f"answers-only {source} -> {target}")

    def clog(self, source: str, target: str) -> Cut:
        """Hold up what `source` sends to `target`; it arrives, in order, once this is over."""
        return self.cut(on_link(source, target, Blocked.EVERYTHING), Manner.CLOG, f"clog {source} -> {target}")

    def unclog(self, source: str, target: str) -> None:
        """End all clogs of that direction."""
        description = f"clog {source} -> {target}"
        self._cuts = [cut for cut in self._cuts if (cut.manner, cut.description) != (Manner.CLOG, description)]
        self._cuts_changed()

    # Faults of single frames

    def plan(self, applies: Callable[[Message], bool], fate: FrameFate, times: int = 1) -> PlannedFault:
        """Let the next `times` frames to which `applies` meet that fate.  See `frames_of`."""
        planned = PlannedFault(applies, fate, times)
        self._planned.append(planned)
        return planned

    def lose_answers(self, api: Api[Any, Any], times: int = 1) -> PlannedFault:
        """Lose the next answers to requests of that API, each with its connection."""
        return self.plan(frames_of(api, is_request=False), FrameFate.RESET, times)

    def forget_plans(self) -> None:
        """Let no planned fault happen any more."""
        self._planned.clear()

    def end_faults(self) -> None:
        """End every cut, every planned fault, and whatever was set for links; older builds stay as old as they are."""
        self.heal()
        self.forget_plans()
        self._default = LinkSettings()
        for link in self._links.values():
            link.own_settings.clear()
            self._apply_default(link)

    # Older builds

    def cap_versions(self, host: str, api_versions: Mapping[int, int], kraft_version: int | None = None) -> None:
        """Let that host pass for an older build, on connections opened from now on.

        `api_versions` gives the newest version by API key, `kraft_version` the highest level of that feature; both
        inclusive.  Every answer to ApiVersions that the host gives is capped so, and every one that it gets, so that
        neither side uses what the older build has not.
        """
        self._caps[host] = VersionCap(dict(api_versions), kraft_version)

    @property
    def has_caps(self) -> bool:
        """Whether some host passes for an older build, be it only on a connection from before."""
        return bool(self._caps or self._capped_connections)

    def uncap_versions(self, host: str) -> None:
        """Let it be of our build again, on connections opened from now on."""
        self._caps.pop(host, None)

    # Sending

    def forget(self, connection: SimulatedConnection) -> None:
        self._capped_connections.discard(connection.number)
        super().forget(connection)

    def send(self, end: SimulatedStream, data: bytes, message: Message | None) -> None:
        """Send on what an end sends: some bytes that end with that frame, or within one."""
        if message is None:
            end.outgoing.put(data, None)
            return
        if message.is_request:
            self.requests_sent[message.source, message.api_key] += 1
        elif self._caps and message.api_key == API_VERSIONS.key and len(data) == len(message.raw):
            message = self._capped(message)
            data = message.raw
        self.report(message)
        link = end.outgoing.link
        if not (link.has_faults or self._planned):
            end.outgoing.put(data, message)
            return
        fate = self._fate(message, link)
        if fate is FrameFate.DELIVER:
            delay_s = link.retransmissions_s()
            if delay_s > 0:
                self.faults["loss"] += 1
            end.outgoing.put(data, message, delay_s=delay_s)
            return
        self.faults[fate.value] += 1
        self._meet(fate, end, data, message)

    def _capped(self, message: Message) -> Message:
        for host in (message.source, message.target):
            if host in self._caps:
                self._capped_connections.add(message.connection)
                message = attrs.evolve(message, raw=self._caps[host].frame(message))
        return message

    def _fate(self, message: Message, link: Link) -> FrameFate:
        for planned in self._planned:
            if planned.times > 0 and planned.applies(message):
                planned.times -= 1
                if planned.times == 0:
                    self._planned.remove(planned)
                return planned.fate
        return link.fate(is_request=message.is_request) if link.has_faults else FrameFate.DELIVER

    def _meet(self, fate: FrameFate, end: SimulatedStream, data: bytes, message: Message) -> None:
        link = end.outgoing.link
        if fate is FrameFate.CUT and len(data) > 1:
            end.outgoing.put(data[: link.random.randrange(1, len(data))], None)
        elif fate is FrameFate.DUPLICATE:
            arrives_at = end.outgoing.put(data, message)
            if arrives_at < inf:
                self._repeat(end.connection, message, arrives_at + link.random.uniform(0.0, DUPLICATE_DELAY_MAX_S))
                end.incoming.fail_for_target(arrives_at)
            return
        end.connection.reset()

    def _repeat(self, first: SimulatedConnection, message: Message, at: float) -> None:
        """Deliver a request once more at that time, over a connection that only the network knows of."""
        listener = self.listeners.get((first.endpoint.host, first.endpoint.port))
        if listener is None:
            return
        connection = self.connect(message.source, listener)
        connection.be_ghost()
        again = attrs.evolve(message, connection=connection.number, is_duplicate=True, delivered=False)
        connection.unanswered[again.correlation_id] = again
        connection.opener_end.outgoing.put(message.raw, again, delay_s=at - trio.current_time())
        listener.offer(connection, at)


def _manner(silent: bool) -> Manner:
    return Manner.SILENT if silent else Manner.RESET


def _given(**settings: Any) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}
