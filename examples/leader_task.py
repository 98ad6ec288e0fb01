"""A task that only the leader does, and that another node takes over: python -m examples.leader_task"""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import attrs
import trio

from examples.local_quorum import local_quorum
from kraft_trio import Committed, MsgpackSerde, NewRecord, Node, NotLeaderError, OutcomeUnknownError, Record


@attrs.frozen
class Invoice:
    number: int
    issued_by: int


class Invoices:
    """The number of the last invoice.  Numbers must have neither gaps nor repetitions."""

    def __init__(self) -> None:
        self.last = 0

    def apply(self, record: Committed[Invoice]) -> None:
        self.last = record.value.number

    def save(self) -> Sequence[NewRecord]:
        return [NewRecord(b"%d" % self.last)]

    async def load(self, records: AsyncIterator[Record]) -> None:
        self.last = int((await anext(records)).value or 0)


async def issue_invoices(node: Node[Invoice, None], invoices: Invoices) -> None:
    """Run on all nodes; the leader alone issues, for as long as it leads."""
    while True:
        with suppress(NotLeaderError, OutcomeUnknownError):  # the leadership ended during an append
            async with node.leadership() as term:  # the state now has all invoices of earlier leaders
                while True:
                    invoice = Invoice(invoices.last + 1, node.key.id)
                    [offset] = await node.append([invoice], epoch=term.epoch)  # in this epoch or never
                    await node.wait_until_applied(offset)
                    await trio.sleep(0.05)


async def main() -> None:
    machines = [Invoices() for _ in range(3)]
    async with local_quorum(MsgpackSerde(Invoice), machines) as nodes, trio.open_nursery() as nursery:
        for node, invoices in zip(nodes, machines, strict=True):
            nursery.start_soon(issue_invoices, node, invoices)
        numbers, issuers = [], set()
        async for committed in nodes[0].committed():
            invoice = committed.value
            numbers.append(invoice.number)
            if invoice.issued_by not in issuers:
                issuers.add(invoice.issued_by)
                print(f"node {invoice.issued_by} issues")
                if len(issuers) == len(nodes):
                    break
                await nodes[0].transfer_leadership(invoice.issued_by % len(nodes) + 1)
        print("in sequence:", numbers == list(range(1, len(numbers) + 1)))
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main)
