"""Which metadata records count (KIP-868): those outside of transactions, and those of transactions that ended."""

from __future__ import annotations

import pytest

from kraft_trio.protocol.metadata_transactions import ABORT, BEGIN, END, NO_OP, TransactionFold

TOPIC = 2


@pytest.mark.parametrize(
    ("keys", "counting", "is_open"),
    [
        ([], [], False),
        ([TOPIC, NO_OP, TOPIC], [0, 2], False),
        ([BEGIN, TOPIC, TOPIC], [], True),
        ([BEGIN, TOPIC, NO_OP, TOPIC, END], [1, 3], False),
        ([BEGIN, TOPIC, ABORT], [], False),
        ([TOPIC, BEGIN, TOPIC, ABORT, TOPIC], [0, 4], False),
        ([BEGIN, TOPIC, ABORT, BEGIN, TOPIC, END], [4], False),
        ([BEGIN, END], [], False),
        ([TOPIC, BEGIN, TOPIC], [0], True),
    ],
)
def test_records_that_count(keys: list[int], counting: list[int], is_open: bool) -> None:
    fold = TransactionFold()
    found = [value for number, key in enumerate(keys) for value in fold.add(key, b"%d" % number)]
    assert ([int(value) for value in found], fold.is_open) == (counting, is_open)


def test_a_transaction_begins_once_and_ends_once() -> None:
    fold = TransactionFold[int]()
    assert fold.problem(END) == fold.problem(ABORT) == "no transaction has begun"
    assert fold.problem(BEGIN) is fold.problem(TOPIC) is None
    fold.add(BEGIN, 0)
    assert fold.problem(BEGIN) == "the transaction before it has not ended"
    assert fold.problem(END) is fold.problem(ABORT) is fold.problem(TOPIC) is None
