"""What the picture of a commit is drawn from."""

from __future__ import annotations

from xml.etree import ElementTree

from benchmarks.timeline_picture import Message, draw, median_append, messages

LEADER_PORT, FOLLOWER_PORT = 100, 200
EVENTS = {
    "follower": [
        ("received", 3_000, FOLLOWER_PORT, LEADER_PORT, 10),
        ("turn", 3_000, 4_000),
        ("fsync", 4_000, 5_000),
        ("sent", 5_000, FOLLOWER_PORT, LEADER_PORT, 7),
    ],
    "leader": [
        ("append", 0, 100_000),  # of the first half, which warms up
        ("turn", 1_000, 2_000),
        ("sent", 1_500, LEADER_PORT, FOLLOWER_PORT, 4),
        ("sent", 1_800, LEADER_PORT, FOLLOWER_PORT, 10),
        ("sent", 1_900, LEADER_PORT, 300, 10),  # to a process that is not drawn
        ("received", 5_500, LEADER_PORT, FOLLOWER_PORT, 7),
        ("append", 1_000, 6_000),
    ],
}


def test_a_message_arrives_with_the_read_that_has_its_last_byte() -> None:
    assert messages(EVENTS) == [
        Message("follower", "leader", 5_000, 5_500),
        Message("leader", "follower", 1_500, 3_000),
        Message("leader", "follower", 1_800, 3_000),
    ]


def test_the_median_append_is_of_the_second_half() -> None:
    appends = [("append", 0, taken) for taken in (900, 900, 900, 900, 1, 3, 2, 9)]
    assert median_append(appends) == (0, 2)


def test_the_picture_shows_turns_fsyncs_and_messages_of_the_commit() -> None:
    svg = ElementTree.fromstring(draw(EVENTS, "leader"))
    shapes = [element.get("class") for element in svg.iter() if element.tag.endswith(("rect", "line"))]
    legend = 1
    assert shapes.count("turn") == 2 + legend
    assert shapes.count("fsync") == 1 + legend
    assert shapes.count("message") == 3 + legend
    texts = [element.text for element in svg.iter() if element.tag.endswith("text")]
    assert {"follower", "leader", "0 µs"} <= set(texts)


def test_what_lies_outside_the_commit_is_not_drawn() -> None:
    later = {**EVENTS, "leader": [*EVENTS["leader"], ("turn", 90_000, 95_000), ("fsync", 90_000, 95_000)]}
    assert draw(later, "leader") == draw(EVENTS, "leader")
