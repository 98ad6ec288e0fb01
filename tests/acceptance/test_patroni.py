"""Patroni with two PostgreSQL servers uses three nodes in place of etcd, as `scripts/story patroni` tells it."""

from __future__ import annotations

import http.client
import json
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from harness.waiting import wait_until
from scripts.stories import __main__ as command
from scripts.stories import patroni
from scripts.stories.node import Node, StorySkipped
from scripts.stories.story import Story

PREFIX = b"/service/rows/"


def keys_of(node: Node) -> dict[str, Any]:
    """What this node says that Patroni has written."""
    [listener] = [line for line in node.properties.read_text().splitlines() if line.startswith("kraft.kv.listener=")]
    connection = http.client.HTTPConnection(listener.partition("://")[2], timeout=20)
    end = PREFIX[:-1] + bytes([PREFIX[-1] + 1])
    body = {"key": b64encode(PREFIX).decode(), "range_end": b64encode(end).decode()}
    connection.request("POST", "/v3/kv/range", json.dumps(body))
    found = json.loads(connection.getresponse().read())
    connection.close()
    return {
        b64decode(kv["key"]).decode().removeprefix(PREFIX.decode()): b64decode(kv.get("value", "")).decode()
        for kv in found["kvs"]
    }


@pytest.mark.nightly
def test_patroni_fails_over_and_survives_the_leaders_death(story: Story) -> None:
    try:
        patroni.tell(story)
    except StorySkipped as reason:
        pytest.skip(str(reason))
    first, *others = story.nodes.values()
    wait_until("the last primary has given up its lock", lambda: "leader" not in keys_of(first))
    keys = keys_of(first)
    assert [keys_of(node) for node in others] == [keys, keys]
    assert [new_leader for *_, new_leader in json.loads(keys["history"])] == ["b", "a"]


def test_a_story_says_which_program_is_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> None:
        raise StorySkipped("there is no Patroni")

    monkeypatch.setattr(patroni, "check_programs", check)
    assert command.played("patroni", tmp_path, lambda: None).text == "skipped: there is no Patroni"
