"""The feed of events: every reader gets them all, or is cut off."""

from __future__ import annotations

import json

import trio

from kraft_trio.tracing.event_feed import KEPT, MAX_TEXT, MAX_WAITING, SHARED_ID, TOLD, EventFeed


def feed() -> EventFeed:
    return EventFeed(lambda: 1234)


def data_of(event: bytes) -> dict[str, object]:
    fields = dict(line.split(": ", 1) for line in event.decode().splitlines() if line)
    told: dict[str, object] = json.loads(fields["data"])
    return {"event": fields["event"], **told}


async def test_a_reader_gets_each_event_with_its_reason() -> None:
    events = feed()
    with events.reading() as arrivals:
        events.heard("vote requested", {"candidate": "2", "granted": False, "reason": "log behind"})
        assert data_of(arrivals.receive_nowait()) == {
            "event": "vote",
            "what": "vote requested",
            "atMs": 1234,
            "candidate": "2",
            "granted": False,
            "reason": "log behind",
        }


async def test_other_lines_are_no_events() -> None:
    events = feed()
    with events.reading() as arrivals:
        events.heard("connection closed", {})
        assert arrivals.statistics().current_buffer_used == 0


async def test_a_new_reader_gets_the_newest_events_first() -> None:
    events = feed()
    for epoch in range(KEPT + 5):
        events.heard("role", {"epoch": epoch})
    with events.reading() as arrivals:
        assert data_of(arrivals.receive_nowait())["epoch"] == 5
        assert arrivals.statistics().current_buffer_used == KEPT - 1


def test_events_that_follow_a_shared_id_do_not_push_it_out_of_the_status() -> None:
    """Two processes on copies of one directory report their listeners in turn: three events each time."""
    events = feed()
    events.heard(SHARED_ID, {"node_id": 3, "reason": "old"})
    events.heard(SHARED_ID, {"node_id": 3, "reason": "two processes"})
    for offset in range(TOLD - 1):
        events.heard("voter change appended", {"offset": offset})
    assert len(events.newest()) == TOLD
    events.heard("voter change appended", {"offset": TOLD})
    told = events.newest()
    assert [(told[0]["what"], told[0]["reason"], told[0]["id"])] == [(SHARED_ID, "two processes", 1)]
    assert [event["what"] for event in told].count(SHARED_ID) == 1
    assert len(told) == TOLD + 1


async def test_a_slow_reader_is_cut_off_alone() -> None:
    events = feed()
    with events.reading() as quick:
        with events.reading() as slow:
            for epoch in range(MAX_WAITING + 1):
                events.heard("role", {"epoch": epoch})
                assert data_of(quick.receive_nowait())["epoch"] == epoch
            assert slow.statistics().current_buffer_used == MAX_WAITING
            with trio.fail_after(60):
                await trio.sleep_forever()
        assert events.readers == 1
        await trio.lowlevel.checkpoint()


async def test_the_words_of_a_peer_are_bounded_and_one_line() -> None:
    events = feed()
    with events.reading() as arrivals:
        events.heard("role", {"reason": "\n\nevent: forged\n" * 1000})
        event = arrivals.receive_nowait()
    assert event.count(b"\n") == 4
    assert len(event) < 4 * MAX_TEXT
