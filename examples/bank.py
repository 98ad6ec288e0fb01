"""A bank as a replicated state machine, small enough to read, with what `kraft simulate` needs to test it:

kraft simulate --state-machine bank:Bank --serde bank:SERDE --seeds 0:100
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence

import attrs

from kraft_trio import CommandFailed, Committed, MsgpackSerde, NewRecord, Record

ACCOUNTS = ("alice", "bob", "carol", "dave")


@attrs.frozen
class Deposit:
    account: str
    amount: int


@attrs.frozen
class Transfer:
    source: str
    target: str
    amount: int


Command = Deposit | Transfer

SERDE: MsgpackSerde[Command] = MsgpackSerde(Deposit, Transfer)


class NotEnoughMoney(CommandFailed):
    """The account does not have the amount.  The arguments: account, balance, amount."""


class Bank:
    """Accounts with a balance each.  The result of a command is the new balance of the account that it names first."""

    def __init__(self) -> None:
        self.balances: dict[str, int] = {}

    def apply(self, record: Committed[Command]) -> int:
        match record.value:
            case Deposit(account, amount):
                self._add(account, amount)
                return self.balances[account]
            case Transfer(source, target, amount):
                balance = self.balances.get(source, 0)
                if balance < amount:
                    raise NotEnoughMoney(source, balance, amount)
                self._add(source, -amount)
                self._add(target, amount)
                return self.balances[source]

    def _add(self, account: str, amount: int) -> None:
        self.balances[account] = self.balances.get(account, 0) + amount

    def save(self) -> Sequence[NewRecord]:
        return [NewRecord(b"%d" % balance, key=name.encode()) for name, balance in sorted(self.balances.items())]

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.balances = {(record.key or b"").decode(): int(record.value or 0) async for record in records}

    # What clients do in a simulation

    def random_command(self, source: random.Random) -> Command:
        if source.random() < 0.5:
            return Deposit(source.choice(ACCOUNTS), source.randrange(1, 100))
        payer, payee = source.sample(ACCOUNTS, 2)
        return Transfer(payer, payee, source.randrange(1, 100))

    def random_query(self, source: random.Random) -> str:
        return source.choice(ACCOUNTS)

    def answer(self, account: str) -> int:
        return self.balances.get(account, 0)
