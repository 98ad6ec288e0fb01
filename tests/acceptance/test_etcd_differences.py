"""A gateway of a real node answers as etcd does, but for what docs/reference/key-value-store.md names.

Needs scripts/get-etcd.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from harness.etcd import etcd_program
from scripts.etcd_differences.compare import KNOWN, NOT_A_MESSAGE, known_difference
from scripts.etcd_differences.peers import Answer
from scripts.etcd_differences.requests import Ask, RequestMaker
from scripts.etcd_differences.run import compare
from tests.support.programs import REPOSITORY


@pytest.mark.nightly
@pytest.mark.skipif(etcd_program() is None, reason="there is no etcd (scripts/get-etcd)")
def test_random_requests_are_answered_as_by_etcd(tmp_path: Path) -> None:
    program = etcd_program()
    assert program is not None
    seed, known = random.SystemRandom().randrange(2**32), Counter[str]()
    compared, unknown = compare(program, tmp_path, 1500, seed, known)
    assert not unknown, f"seed {seed}: " + "".join(map(str, unknown))
    assert compared == 1500
    assert known["Errors about JSON"], "the requests are not what they should be"


def test_known_differences_are_those_of_the_document() -> None:
    rows = (REPOSITORY / "docs" / "reference" / "key-value-store.md").read_text().splitlines()
    for name in {NOT_A_MESSAGE, *(known.row for known in KNOWN)}:
        assert sum(row.startswith(f"| {name} |") for row in rows) == 1, name


def test_an_error_is_no_known_difference_if_only_one_has_it() -> None:
    ask = Ask("/v3/kv/range", b"{}")
    refusal = [{"code": 3, "message": "limit: 1.5 given, a number of 64 bits expected"}]
    theirs = [{"code": 3, "message": "proto: invalid value"}]
    assert known_difference(ask, Answer(400, refusal), Answer(400, theirs)) == "Errors about JSON"
    for other in (
        Answer(200, [{"header": {}}]),
        Answer(400, [{"code": 3, "message": "etcdserver: key is not provided"}]),
        Answer(400, [{"code": 11, "message": "proto: invalid value"}]),
    ):
        assert known_difference(ask, Answer(400, refusal), other) is None


def test_a_seed_makes_the_same_requests() -> None:
    made = [[str(RequestMaker(random.Random(seed)).next()) for _ in range(50)] for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]
