"""Asks two fresh servers the same, request for request, and watches meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import attrs

from scripts.etcd_differences.compare import NOT_A_MESSAGE, comparable, known_difference, watched, wrong_progress
from scripts.etcd_differences.peers import Answer, Peer, Watching, both
from scripts.etcd_differences.requests import Ask, RequestMaker

ROUND = 500
"""Requests to one pair of servers."""
QUIET_S = 0.4
"""A stream that tells nothing for so long has told everything, if the other one has told the same."""
STREAM_S = 10.0
EVERYTHING = Ask("/v3/watch", b'{"create_request":{"key":"AA==","range_end":"AA==","prev_kv":true}}')


@attrs.frozen
class Difference:
    """A request whose answers differ."""

    ask: Ask
    ours: Any
    theirs: Any

    def __str__(self) -> str:
        return f"\n{self.ask}\n  ours: {_shown(self.ours)}\n  etcd: {_shown(self.theirs)}"


def _compaction(body: bytes) -> int:
    return int(float(json.loads(body or b"{}").get("revision", 0)))


def _shown(answer: Any) -> str:
    return f"{answer.status} {json.dumps(answer.content)}" if isinstance(answer, Answer) else json.dumps(answer)


def compare(
    program: Path,
    directory: Path,
    requests: int,
    seed: int,
    known: Counter[str],
    tell: Callable[[Difference], object] = lambda difference: None,
) -> tuple[int, list[Difference]]:
    """Compare so many requests.  Return how many were compared, and the differences that are not known.

    `known` counts the others.  A round ends early if the stores have come to differ.
    """
    compared, unknown = 0, list[Difference]()
    number = 0
    while compared < requests:
        chance = random.Random(f"{seed}/{number}")
        with both(program, directory / str(number)) as peers, ThreadPoolExecutor(2) as pool:
            one = Round(*peers, chance, pool, known, tell)
            compared += one.play(min(ROUND, requests - compared))
        unknown += one.unknown
        number += 1
    return compared, unknown


class Round:
    """One pair of servers, and what was found."""

    def __init__(
        self,
        ours: Peer,
        theirs: Peer,
        chance: random.Random,
        pool: ThreadPoolExecutor,
        known: Counter[str],
        tell: Callable[[Difference], object],
    ) -> None:
        self._peers = (ours, theirs)
        self._chance = chance
        self._pool = pool
        self._known = known
        self._tell = tell
        self._maker = RequestMaker(chance)
        self.unknown: list[Difference] = []
        self._has_diverged = False
        """Whether one of the stores may have changed alone."""

    def play(self, requests: int) -> int:
        """Return how many requests were compared."""
        ours, theirs = self._peers
        compared = 0
        with ours.watching(EVERYTHING) as our_watch, theirs.watching(EVERYTHING) as their_watch:
            for watch in (our_watch, their_watch):
                assert watch.take(STREAM_S), "a watch begins"
            while compared < requests and not self._has_diverged:
                self._one()
                compared += 1
            if not self._has_diverged:
                self._compare_streams(EVERYTHING, our_watch, their_watch)
        return compared

    def _one(self) -> None:
        kind = self._chance.random()
        if kind < 0.03:
            ask = self._maker.watch()
            with self._peers[0].watching(ask) as ours, self._peers[1].watching(ask) as theirs:
                self._compare_streams(ask, ours, theirs)
            return
        ask = self._maker.keep_alive() if kind < 0.05 else self._maker.next()
        ours, theirs = self._pool.map(lambda peer: peer.ask(ask), self._peers)
        self._note_revisions(ask, theirs)
        found, expected = comparable(ask, ours), comparable(ask, theirs)
        if found != expected:
            self._differ(ask, found, expected)

    def _note_revisions(self, ask: Ask, answer: Answer) -> None:
        if answer.status != 200 or not isinstance(answer.content, list):
            return
        for one in answer.content:
            revision = one.get("header", {}).get("revision") if isinstance(one, dict) else None
            self._maker.revision = max(self._maker.revision, int(revision or 0))
        if ask.path.endswith("/compaction") and not ask.is_damaged:
            self._maker.compacted = max(self._maker.compacted, _compaction(ask.body))

    def _differ(self, ask: Ask, ours: Answer, theirs: Answer) -> None:
        self._has_diverged |= ours.status != theirs.status and not ask.only_reads
        row = known_difference(ask, ours, theirs)
        if row is not None:
            self._known[row] += 1
        else:
            self._note(Difference(ask, ours, theirs))

    def _note(self, difference: Difference) -> None:
        self._has_diverged = True
        self.unknown.append(difference)
        self._tell(difference)

    def _compare_streams(self, ask: Ask, ours: Watching, theirs: Watching) -> None:
        """Read both until they are quiet and alike, or for some time."""
        until = time.monotonic() + STREAM_S
        while time.monotonic() < until:
            came = [watching.take(QUIET_S / 2) for watching in (ours, theirs)]
            found, expected = watched(ours.messages), watched(theirs.messages)
            if not any(came) and (found == expected or "errors" in found):
                break
        if found.pop("errors", None):
            self._known[NOT_A_MESSAGE] += 1
            return
        if found != expected:
            self._note(Difference(ask, found, expected))
        for wrong in (wrong_progress(ours.messages), wrong_progress(theirs.messages)):
            if wrong is not None:
                self._note(Difference(ask, wrong, None))
