"""Clients of registers that are replicated by real nodes, and the history of what they were told."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, Final

import attrs
import trio

from kraft_trio.protocol.request_ids import RANDOM_BITS, new_request_id
from kraft_trio.simulation.facts.history_file import Entry
from scripts.linearizability.members import Gone, Member, Members
from scripts.linearizability.registers import random_key

WITHIN_S: Final = (0.2, 1.0, 4.0)
"""How long a client waits for an answer; each attempt draws one of them."""
MOST_TRIES: Final = 100
IMPATIENT: Final = 0.05
"""The share of writes that are tried only once.  Many writes of unknown outcome would make a history hard to check."""
PAUSE_S: Final = 0.06
"""Between two operations of a client, on average."""


def most_tries(source: random.Random) -> int:
    """How often a client tries its next write while the outcome is unknown."""
    return 1 if source.random() < IMPATIENT else MOST_TRIES


@attrs.define
class Recorder:
    """The history so far.  Invocations and completions are numbered in their order."""

    entries: list[Entry] = attrs.field(factory=list)
    acknowledged: int = 0
    changed: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot)
    """Wakes at each acknowledgement."""
    begun: int = 0
    _events: int = 0

    def event(self) -> int:
        self._events += 1
        return self._events

    def add(self, client: str, kind: str, command: Sequence[Any], answer: dict[str, Any], invoked: int) -> None:
        """Record an operation that has just been completed, or given up."""
        outcome = answer["outcome"]
        if outcome == "ok":
            self.acknowledged += 1
            self.changed.unpark_all()
        completed = None if outcome == "unknown" else self.event()
        result = answer["result"] if outcome == "ok" else None
        self.entries.append(Entry(client, kind, command, outcome, result, invoked, completed))

    def count(self, outcome: str) -> int:
        return sum(entry.outcome == outcome for entry in self.entries)


@attrs.define(eq=False)
class Client:
    """Has one operation at a time, each on a random running member."""

    name: str
    members: Members[Member]
    recorder: Recorder
    random: random.Random

    async def run(self) -> None:
        """Execute and read until cancelled; the operation under way is then of unknown outcome."""
        while True:
            await trio.sleep(self.random.expovariate(1 / PAUSE_S))
            recorder = self.recorder
            recorder.begun += 1
            key = random_key(self.random, recorder.begun)
            invoked = recorder.event()
            answer = {"outcome": "unknown"}
            if self.random.random() < 0.5:
                kind, command = "execute", self._command(key, invoked)
            else:
                kind, command = "barrier-read", ["get", key]
            try:
                answer = await (self._execute(command) if kind == "execute" else self._ask(do="get", key=key))
            finally:
                recorder.add(self.name, answer.get("kind", kind), command, answer, invoked)

    async def read_all(self) -> None:
        """Read each register that was used."""
        for key in sorted({entry.command[1] for entry in self.recorder.entries}):
            invoked = self.recorder.event()
            answer = await self._ask(do="get", key=key)
            self.recorder.add(self.name, answer.get("kind", "barrier-read"), ["get", key], answer, invoked)

    def _command(self, key: str, number: int) -> list[Any]:
        value = f"{self.name}/{number}"
        if self.random.random() < 0.8:
            return ["swap", key, value]
        seen = [entry for entry in self.recorder.entries[-20:] if entry.command[1] == key and entry.result is not None]
        expected = seen[-1].result if seen and seen[-1].command[0] in ("get", "swap") else None
        return ["cas", key, expected, value]

    async def _execute(self, command: list[Any]) -> dict[str, Any]:
        """Execute with one request id, again on any member while the outcome is unknown."""
        request_id = new_request_id(time.time_ns() // 1_000_000, self.random.getrandbits(RANDOM_BITS))
        is_certain = True
        for _ in range(most_tries(self.random)):
            answer = await self._ask(do="execute", command=command, request_id=str(request_id))
            if answer["outcome"] == "ok" or (answer["outcome"] == "fail" and is_certain):
                return answer
            is_certain = False
            await trio.sleep(PAUSE_S)
        return {"outcome": "unknown"}

    async def _ask(self, **request: object) -> dict[str, Any]:
        member: Member | None = self.random.choice(self.members.running) if self.members.running else None
        if member is not None:
            try:
                return await member.ask(self.random.choice(WITHIN_S), **request)
            except (Gone, trio.TooSlowError):
                pass
        return {"outcome": "unknown"}
