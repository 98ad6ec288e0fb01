"""`SimulatedNetwork`: TCP between named hosts in one process, in virtual time, with faults decided by a seed."""

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
from kraft_trio.wire.apis.api_versions import ApiVersionsRequest
from kraft_trio.wire.codec import decode_request, encode_request
from kraft_trio.wire.descriptor import Api

DUPLICATE_DELAY_MAX_S: Final = 1.0
"""The longest time before the network delivers a request a second time."""


class SimulatedNetwork(Hosts):
    """Named hosts, the links between them, and their faults.

    The bytes of a connection arrive in order or not at all.  Cuts add up: a second partition does not replace the first
    one.  Each method that makes a cut returns it, and `heal` ends one or all of them.  The hosts of a partition need
    not exist yet.  A host's traffic with itself has no latency and no faults.

    `on_message` is called with each whole frame when it is sent and again when it is delivered, and must not wait.  All
    randomness comes from `random_source`.  Each link has a stream of its own, so that events on one link do not change
    those on another.
    """

    def __init__(self, random_source: random.Random, *, on_message: Callable[[Message], object] | None = None) -> None:
        super().__init__(random_source, on_message)
        self.requests_sent: Counter[tuple[str, int]] = Counter()
        """How many requests each host has sent, by API key."""
        self.faults: Counter[str] = Counter()
        """How many frames met each fate other than delivery, by its name, and "loss"."""
        self._planned: list[PlannedFault] = []
        self._caps: dict[str, VersionCap] = {}
        self._software: dict[str, tuple[str, str]] = {}
        self._capped_connections: set[int] = set()
        """The open connections on which a host passes for an older build, which it does until they end."""

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
        """Change how one direction between two hosts behaves from now on; None leaves a setting as it is.

        See LinkSettings.  Raises ValueError for a probability outside 0.0 to 1.0.
        """
        link = self.link(source, target)
        changes = _given(latency=latency, loss=loss, reset=reset, cut_frames=cut_frames, duplicates=duplicates)
        attrs.evolve(link.settings, **changes)
        link.own_settings |= changes
        self._apply_default(link)

    def reset_link(self, source: str, target: str) -> None:
        """Let that direction follow the default again."""
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
        """Change the default of all links, except for settings by `set_link` and a host's traffic with itself."""
        changes = _given(latency=latency, loss=loss, reset=reset, cut_frames=cut_frames, duplicates=duplicates)
        self._default = attrs.evolve(self._default, **changes)
        for link in self._links.values():
            self._apply_default(link)

    def _apply_default(self, link: Link) -> None:
        link.apply(LOOPBACK if link.source == link.target else self._default)

    # Cuts

    def cut(self, blocked: BlockedBetween, manner: Manner = Manner.SILENT, description: str = "cut") -> Cut:
        """Block the traffic that `blocked` returns from now on."""
        cut = Cut(blocked, manner, description)
        self._cuts.append(cut)
        self._cuts_changed()
        return cut

    def heal(self, cut: Cut | None = None) -> None:
        """End that cut, or all of them, including clogs.  A cut that is healed already stays so."""
        self._cuts = [] if cut is None else [other for other in self._cuts if other is not cut]
        self._cuts_changed()

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """The cuts in force, oldest first."""
        return tuple(self._cuts)

    def _cuts_changed(self) -> None:
        for link in list(self._links.values()):
            link.block_by(self._cuts)

    def partition(self, *groups: Collection[str], silent: bool = True) -> Cut:
        """Let hosts reach only their own group; hosts in no group are unaffected.

        `silent` loses traffic; otherwise connections are reset and new ones refused.
        """
        names = [sorted(group) for group in groups]
        description = " | ".join(" ".join(group) for group in names)
        return self.cut(between_groups(names), _manner(silent), f"partition {description}")

    def isolate(self, host: str, others: Collection[str] | None = None, *, silent: bool = True) -> Cut:
        """Cut one host off from the given others, or from all hosts, including clients."""
        return self.cut(around(host, others), _manner(silent), f"isolate {host}")

    def bridge(self, host: str, left: Collection[str], right: Collection[str], *, silent: bool = True) -> Cut:
        """Cut two groups off from each other; only `host` reaches both."""
        if host in left or host in right:
            raise ValueError(f"bridge {host}: a host in neither of the two groups was expected")
        names = [sorted(left), sorted(right)]
        description = f"bridge {host} between {' '.join(names[0])} | {' '.join(names[1])}"
        return self.cut(between_groups(names), _manner(silent), description)

    def ring(self, *hosts: str, silent: bool = True) -> Cut:
        """Let each of these hosts reach only its two neighbours; the first one follows the last."""
        return self.cut(all_but_neighbours(hosts), _manner(silent), f"ring {' '.join(hosts)}")

    def one_way(self, source: str, target: str, *, handshakes: bool = True) -> Cut:
        """Lose what `source` sends to `target`, requests and answers; the other direction works.

        Connections still open, as across a path that passes only small packets, so `target` keeps asking and never gets
        an answer.  Without `handshakes`, no connection opens in either direction, as in TCP when one direction loses
        every packet.
        """
        what = Blocked.REQUESTS | Blocked.ANSWERS if handshakes else Blocked.EVERYTHING
        return self.cut(on_link(source, target, what), Manner.SILENT, f"one-way {source} -> {target}")

    def requests_only(self, source: str, target: str) -> Cut:
        """Deliver the requests of `source` to `target`, and lose the answers."""
        return self.cut(on_link(target, source, Blocked.ANSWERS), Manner.SILENT, f"requests-only {source} -> {target}")

    def answers_only(self, source: str, target: str) -> Cut:
        """Lose the requests of `source` to `target`; answers to earlier requests still arrive."""
        return self.cut(on_link(source, target, Blocked.REQUESTS), Manner.SILENT, f"answers-only {source} -> {target}")

    def clog(self, source: str, target: str) -> Cut:
        """Hold up what `source` sends to `target`; it arrives, in order, after the end."""
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
        """Cancel all planned faults."""
        self._planned.clear()

    def end_faults(self) -> None:
        """End every cut and planned fault, and reset every link.  Older builds stay as they are."""
        self.heal()
        self.forget_plans()
        self._default = LinkSettings()
        for link in self._links.values():
            link.own_settings.clear()
            self._apply_default(link)

    # Older builds

    def cap_versions(self, host: str, api_versions: Mapping[int, int], kraft_version: int | None = None) -> None:
        """Let that host pass for an older build, on connections opened from now on.

        `api_versions` gives the newest version by API key and `kraft_version` the highest level of that feature, both
        inclusive.  The network caps every ApiVersions answer that the host gives or gets, so that neither side uses
        what the older build lacks.
        """
        self._caps[host] = VersionCap(dict(api_versions), kraft_version)

    @property
    def has_caps(self) -> bool:
        """Whether a host passes for an older build on any connection, even one from before."""
        return bool(self._caps or self._capped_connections)

    def name_software(self, host: str, name: str, version: str) -> None:
        """Let that host name this software in its ApiVersions requests, on connections opened from now on."""
        self._software[host] = (name, version)

    def uncap_versions(self, host: str) -> None:
        """Let it be of this build again, on connections opened from now on."""
        self._caps.pop(host, None)

    # Sending

    def forget(self, connection: SimulatedConnection) -> None:
        self._capped_connections.discard(connection.number)
        super().forget(connection)

    def send(self, end: SimulatedStream, data: bytes, message: Message | None) -> None:
        """Send bytes that end with that frame, or that end within a frame."""
        if message is None:
            end.outgoing.put(data, None)
            return
        if message.is_request:
            self.requests_sent[message.source, message.api_key] += 1
            if message.api_key == API_VERSIONS.key and message.source in self._software:
                message = self._named(message)
                data = message.raw
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

    def _named(self, message: Message) -> Message:
        header, _ = decode_request(message.frame)
        named = ApiVersionsRequest(*self._software[message.source])
        raw = encode_request(API_VERSIONS, header.version, header.correlation_id, header.client_id, named)
        return attrs.evolve(message, raw=raw)

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
        """Deliver a request once more at that time, over a connection that only the network knows."""
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
