"""`Link`: one direction between two hosts, with its latency, its faults and its blocks."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any, Final, Protocol

import attrs

from kraft_trio.simulation.network.link_faults import Blocked, Cut, FrameFate, LinkSettings, Manner

RETRANSMISSION_S: Final = 0.2
"""TCP's first retransmission timeout for data (Linux's minimum).  Each further one is twice as long."""
SYN_RETRANSMISSION_S: Final = 1.0
"""TCP's first retransmission timeout for opening a connection (RFC 6298)."""
RETRANSMISSION_MAX_S: Final = 120.0
GIVE_UP_S: Final = 90.0
"""A connection is given up after this long without a sign of the peer, by the keep-alive settings of our sockets."""

_HANDSHAKES: Final = int(Blocked.HANDSHAKES)


def retransmitted_at(sent_at: float, not_before: float, first_s: float = RETRANSMISSION_S) -> float:
    """The time of the first retransmission, not before `not_before`, of data that was lost at `sent_at`."""
    at, interval = sent_at, first_s
    while at < not_before:
        at += interval
        interval = min(2 * interval, RETRANSMISSION_MAX_S)
    return at


class LinkUser(Protocol):
    """One direction of an open connection that goes over a link."""

    def link_changed(self) -> None:
        """Other traffic is blocked than before."""
        ...


class Link:
    """Everything that one host sends to another, over all their connections."""

    def __init__(self, source: str, target: str, random_source: random.Random, settings: LinkSettings) -> None:
        self.source = source
        self.target = target
        self.random = random_source
        self.own_settings: dict[str, Any] = {}
        """The settings of this link alone."""
        self.pipes: dict[int, LinkUser] = {}
        """By connection number, the directions of open connections that use it."""
        self.lost = 0
        """Blocked flags of the traffic that is lost."""
        self.held = 0
        """Blocked flags of the traffic that waits for the end of a clog."""
        self.resets = False
        """Whether new connections are refused."""
        self.blocked = 0
        """Blocked flags of both."""
        self.settings = settings
        self.has_faults = False
        self.apply(settings)

    def apply(self, default: LinkSettings) -> None:
        """Take the default, except for the link's own settings."""
        self.settings = settings = attrs.evolve(default, **self.own_settings)
        self.has_faults = settings.loss + settings.reset + settings.cut_frames + settings.duplicates > 0

    def block_by(self, cuts: Iterable[Cut]) -> None:
        """Apply these cuts, and tell the pipes if anything changes."""
        before = self.lost, self.held, self.resets
        self.lost = self.held = 0
        self.resets = False
        if self.source != self.target:
            for cut in cuts:
                flags = int(cut.blocked(self.source, self.target))
                if cut.manner is Manner.CLOG:
                    self.held |= flags
                else:
                    self.lost |= flags
                    self.resets = self.resets or (cut.manner is Manner.RESET and flags != 0)
        self.blocked = self.lost | self.held
        if (self.lost, self.held, self.resets) != before:
            for pipe in list(self.pipes.values()):
                pipe.link_changed()

    def latency_s(self) -> float:
        return self.settings.latency.draw_s(self.random)

    def retransmissions_s(self) -> float:
        """How much later a frame arrives because it is lost, perhaps several times."""
        loss = self.settings.loss
        delay, interval = 0.0, RETRANSMISSION_S
        while loss and delay < RETRANSMISSION_MAX_S and self.random.random() < loss:
            delay += interval
            interval *= 2
        return delay

    def fate(self, *, is_request: bool) -> FrameFate:
        """The fate of the next frame."""
        settings, chance = self.settings, self.random.random()
        if chance < settings.reset:
            return FrameFate.RESET
        chance -= settings.reset
        if chance < settings.cut_frames:
            return FrameFate.CUT
        chance -= settings.cut_frames
        if chance < settings.duplicates and is_request:
            return FrameFate.DUPLICATE
        return FrameFate.DELIVER

    def lost_handshake(self) -> bool:
        """Whether a SYN sent now is blocked or lost."""
        return not self.passes_handshakes() or (self.settings.loss > 0 and self.random.random() < self.settings.loss)

    def passes_handshakes(self) -> bool:
        return not self.blocked & _HANDSHAKES
