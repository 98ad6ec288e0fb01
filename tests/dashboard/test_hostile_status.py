"""Whatever one node tells as its status, the others are watched on, and the page gets JSON that a browser reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kraft_trio.client.claims import Told
from kraft_trio.client.told_status import (
    LATELY_MS,
    MAX_LINE,
    MAX_NODES,
    RESTORED_TOLD_MS,
    line_of,
    restored_of,
    shared_id_of,
    status_of,
    vital_number,
    voters_of,
)
from kraft_trio.dashboard.board import explained_fields
from kraft_trio.dashboard.history import History
from kraft_trio.diagnosis.quorum_situation import Claim, Restored, Situation

SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just(10**400), st.just(-(10**400))
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=8
)
EVENTS = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("atMs", "id", "what", "epoch", "leader_id", "node"), VALUES))
)
STATUSES = st.fixed_dictionaries(
    {}, optional={"events": EVENTS | VALUES, "vitals": st.dictionaries(st.just("freeBytes"), VALUES), "role": VALUES}
)


def read_by_a_browser(value: object) -> Any:
    """Raises ValueError for numbers that JSON does not have, and that JSON.parse refuses."""
    return json.loads(json.dumps(value, allow_nan=False))


def shown(status: Mapping[str, Any]) -> Any:
    claim = Claim("host:1", node_id=1, epoch=5, voter_ids=(1, 2, 3), free_bytes=vital_number(status, "freeBytes"))
    history = History(lambda: 0)
    history.heard(Told(claim, status=status))
    history.heard(Told(attrs.evolve(claim, epoch=6), status=status))
    return read_by_a_browser([history.since(0), explained_fields(Situation((claim,))), status])


@given(STATUSES)
def test_no_status_ends_the_dashboard(status: dict[str, Any]) -> None:
    shown(status_of(json.dumps(status)))


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999", "-1e999", str(2**63), "9" * 5000])
def test_status_with_a_number_that_no_browser_reads_is_ignored(number: str) -> None:
    """Python reads these, and would pass them on; then no page of the quorum would continue."""
    assert status_of(f'{{"vitals": {{"freeBytes": {number}}}}}') == {}


@pytest.mark.parametrize("number", [0, 1.5, -1e300, 2**63 - 1, -(2**63)])
def test_status_with_ordinary_numbers_is_read(number: float) -> None:
    assert status_of(json.dumps({"vitals": {"freeBytes": number}})) == {"vitals": {"freeBytes": number}}


@pytest.mark.parametrize("free", [-1, True, 1.5, "1", None, [1]])
def test_disk_with_a_strange_size_is_not_reported(free: object) -> None:
    assert vital_number({"vitals": {"freeBytes": free}}, "freeBytes") is None
    assert vital_number({"vitals": {"freeBytes": 1}}, "freeBytes") == 1


@pytest.mark.parametrize(("told", "read"), [(None, None), ({}, None), (1, None), (" \n", None), ("a\nb", "a b")])
def test_text_of_a_status_is_one_line(told: object, read: str | None) -> None:
    assert line_of(told) == read
    assert len(line_of("x" * 10_000) or "") == MAX_LINE


@pytest.mark.parametrize(
    "voters", [None, 1, "12", [1], [None], [{}], [{"id": True}], [{"id": -1}], [{"id": 2**31}], [{"id": 1}, 2]]
)
def test_strange_list_of_voters_is_not_believed(voters: object) -> None:
    assert voters_of({"voters": voters}) is None
    assert voters_of({"voters": []}) == ()
    assert voters_of({"voters": [{"id": 2, "x": voters}, {"id": 1}]}) == (1, 2)
    assert voters_of({"voters": [{"id": id} for id in range(1000)]}) is None


def shared(**more: object) -> dict[str, object]:
    return {"what": "two nodes share one id", "node_id": 3, "reason": "x\ny", "atMs": 1000, **more}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"atMs": 1000, "events": [shared()]}, (3, "x y")),
        ({"atMs": 1000 + LATELY_MS - 1, "events": [shared(node_id=4), shared(), {"what": "role"}]}, (3, "x y")),
        ({"atMs": 1000 + LATELY_MS, "events": [shared()]}, None),
        ({"events": [shared()]}, None),
        *(({"atMs": 1000, "events": strange}, None) for strange in (None, 1, "x", {"a": 1}, [None], [[]])),
        *(({"atMs": 1000, "events": [shared(node_id=strange)]}, None) for strange in (None, "3", True, [3], 1.5)),
        *(({"atMs": 1000, "events": [shared(reason=strange)]}, None) for strange in (None, "", 1)),
        *(({"atMs": 1000, "events": [shared(atMs=strange)]}, None) for strange in (None, "1", True, {})),
    ],
)
def test_shared_id_is_told_while_it_is_new(status: dict[str, object], expected: tuple[int, str] | None) -> None:
    assert shared_id_of(status) == expected


@pytest.mark.parametrize("strange", [[1], {"a": 1}, "1", 1.5, True])
def test_event_with_a_strange_id_is_left_out(strange: object) -> None:
    """A list as an id ended the watch of all nodes, and with it the HTTP listener of the node that watched."""
    history = History(lambda: 0)
    events = [{"id": strange, "atMs": 1, "what": "role"}, {"id": 1, "atMs": 1, "what": "role"}]
    history.heard(Told(Claim("host:1", node_id=1), status={"events": events}))
    assert [event["id"] for event in history.since(0) if event["isTold"]] == [1]


def came_back(**more: object) -> dict[str, object]:
    return {"id": 3, "acknowledged": 58, "cameBackAt": 8, "atMs": 1000, "hasCaughtUp": True, **more}


STRANGE = (None, "3", True, [3], 1.5, -1)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"atMs": 1000, "restoredVoters": [came_back()]}, (Restored(3, 58, 8, True),)),
        ({"atMs": 1000, "restoredVoters": [came_back(hasCaughtUp=1)]}, (Restored(3, 58, 8, False),)),
        ({"atMs": 1000 + RESTORED_TOLD_MS, "restoredVoters": [came_back()]}, ()),
        ({"restoredVoters": [came_back()]}, ()),
        *(({"atMs": 1000, "restoredVoters": strange}, ()) for strange in (None, 1, "x", {"a": 1}, [None], [[]])),
        *(
            ({"atMs": 1000, "restoredVoters": [came_back(**{name: strange})]}, ())
            for name in ("id", "acknowledged", "cameBackAt", "atMs")
            for strange in STRANGE
        ),
    ],
)
def test_old_copies_are_told_for_a_day(status: dict[str, object], expected: tuple[Restored, ...]) -> None:
    assert restored_of(status) == expected


def test_only_so_many_old_copies_are_believed() -> None:
    status = {"atMs": 1000, "restoredVoters": [came_back(id=number) for number in range(1000)]}
    assert len(restored_of(status)) == MAX_NODES
