"""The bank of examples/, each time with one mistake that a state machine must not make."""

from __future__ import annotations

import datetime
import random
import secrets
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from time import monotonic

from examples.bank import Bank, Command
from kraft_trio import Committed, NewRecord, Record


class RandomBank(Bank):
    def apply(self, record: Committed[Command]) -> int:
        return super().apply(record) + random.randrange(2)


class HastyBank(Bank):
    def apply(self, record: Committed[Command]) -> int:
        self.applied_at = monotonic()
        return super().apply(record)


class DoubleBank(Bank):
    """Applies each command twice, alike on all replicas: only a model shows it."""

    def apply(self, record: Committed[Command]) -> int:
        super().apply(record)
        return super().apply(record)

    def model(self) -> Bank:
        return Bank()


class SharedBank(Bank):
    """Has one state for all instances in a process."""

    shared: dict[str, int] = {}  # noqa: RUF012  that is the mistake

    def __init__(self) -> None:
        self.balances = self.shared


class PersonalBank(Bank):
    """Gives results that depend on the instance."""

    def apply(self, record: Committed[Command]) -> int:
        return super().apply(record) + id(self)


class HidingBank(Bank):
    """Has a state that depends on the instance."""

    def save(self) -> Sequence[NewRecord]:
        return [*super().save(), NewRecord(b"%d" % id(self))]


class LateHidingBank(Bank):
    """Has a state that depends on the instance, and that is too large to be compared after each command."""

    def save(self) -> Sequence[NewRecord]:
        hidden = id(self) if sum(self.balances.values()) > 1 else 0
        return [*super().save(), *(NewRecord(b"%d" % hidden) for _ in range(10))]


class AddingBank(Bank):
    """Adds a snapshot to the state instead of replacing it, and begins with a state."""

    def __init__(self) -> None:
        self.balances = {"bank": 1}

    async def load(self, records: AsyncIterator[Record]) -> None:
        async for record in records:
            self._add((record.key or b"").decode(), int(record.value or 0))


class LateBank(Bank):
    """Saves the state while it changes."""

    def save(self) -> Iterator[NewRecord]:  # type: ignore[override]
        return (NewRecord(b"%d" % self.balances[name], key=name.encode()) for name in sorted(self.balances))


class ForgetfulBank(Bank):
    """Answers with a balance from before."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[str, int] = {}

    def apply(self, record: Committed[Command]) -> int:
        self.before = dict(self.balances)
        return super().apply(record)

    def answer(self, account: str) -> int:
        return self.before.get(account, 0) if len(self.before) else super().answer(account)

    def model(self) -> Bank:
        return Bank()


def uses_time() -> object:
    return time.time()


def uses_monotonic() -> object:
    return monotonic()


def uses_now() -> object:
    return datetime.datetime.now(datetime.UTC)


def uses_today() -> object:
    return datetime.date.today()


def uses_random() -> object:
    return random.random()


def uses_shuffle() -> object:
    return random.shuffle([1, 2, 3])


def uses_urandom() -> object:
    import os

    return os.urandom(4)


def uses_uuid4() -> object:
    return uuid.uuid4()


def uses_token() -> object:
    return secrets.token_hex()


def uses_randbelow() -> object:
    return secrets.randbelow(10)


def uses_unseeded() -> object:
    return random.Random().random()


def uses_seeded() -> object:
    return random.Random(7).sample(range(10), 3)


def uses_dates() -> object:
    return datetime.datetime.fromtimestamp(1, datetime.UTC) + datetime.timedelta(1)
