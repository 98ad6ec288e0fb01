"""Histories made by hand as real nodes tell them: a file for each process, and what such files lack."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from .histories import KEYS, VOTERS, Row, Story, clean, find

FOUR = f"{VOTERS} {KEYS[4]}"
WITHOUT_1 = " ".join(KEYS[node] for node in (2, 3, 4))
SECOND_US = 1_000_000

History = Callable[[str], list[Row]]
"""Rows as the trace source gives them, of a run of that name."""

SOUND: dict[str, History] = {}
"""By name, in what nothing may be found that is an error, however little of it is left."""
BROKEN: dict[str, tuple[str, History]] = {}
"""By name, the check that must find something, and in what."""


def sound(history: History) -> History:
    SOUND[history.__name__] = history
    return history


def breaks(check: str) -> Callable[[History], History]:
    def register(history: History) -> History:
        BROKEN[history.__name__] = check, history
        return history

    return register


def files_of(story: Story, run: str) -> dict[str, list[Row]]:
    """What each process has written, by its file's name: those of the older ones are numbered."""
    processes: dict[int, list[list[Row]]] = {}
    for row in story.rows:
        if row["node"] is not None:
            of_node = processes.setdefault(row["node"], [])
            if row["kind"] == "start":
                of_node.append([])
            of_node[-1].append(row)
    files = {}
    for node, of_node in processes.items():
        for number, rows in enumerate(of_node, 1):
            name = f"node-{node}.trace" + (f".{number}" if number < len(of_node) else "")
            files[name] = [{**row, "sequence": sequence} for sequence, row in enumerate(rows)]
    return files


def told(run: str, files: dict[str, list[Row]], seed: int | None = None) -> list[Row]:
    """The rows of those files; of a simulated run where there is a seed."""
    return [
        {
            **row,
            "file": f"/traces/{run}/{name}",
            "run": run,
            "seed": seed,
            "details": None if row.get("details") is None else json.dumps(row["details"]),
            "error": row.get("error"),
        }
        for name, rows in files.items()
        for row in rows
    ]


def _set_back(rows: Sequence[Row], by_us: int) -> list[Row]:
    return [{**row, "time_us": row["time_us"] - by_us} for row in rows]


def _restarted() -> dict[str, list[Row]]:
    """The files of the clean history, of which node 1 has two; the second begins a second after the first has ended."""
    files = files_of(clean(), "")
    for rows in files.values():
        for row in rows:
            row["time_us"] += 1_000_000 * SECOND_US
    files["node-1.trace"] = _set_back(files["node-1.trace"], -SECOND_US)
    return files


@sound
def a_node_is_restarted(run: str) -> list[Row]:
    return told(run, _restarted())


@sound
def a_clock_was_set_back_a_little(run: str) -> list[Row]:
    """The second file begins before the first one's last events; their names say nothing."""
    files = _restarted()
    first, second = files.pop("node-1.trace.1"), files.pop("node-1.trace")
    began_us = first[0]["time_us"]
    return told(run, {**files, "b": first, "a": _set_back(second, second[0]["time_us"] - began_us - 1500)})


@sound
def a_clock_was_set_back_far(run: str) -> list[Row]:
    """The second file begins before the first one; their names say which one is the first."""
    files = _restarted()
    files["node-1.trace"] = _set_back(files["node-1.trace"], 100 * SECOND_US)
    return told(run, files)


@breaks("trace_epochs_never_fall")
def an_epoch_falls_over_a_restart(run: str) -> list[Row]:
    """Though the clock was set back."""
    files = _restarted()
    files["node-3.trace.1"] = files["node-3.trace"]
    story = Story()
    story.start(3, log_end=5, synced_end=5)
    story.role(3, "Unattached", 1)
    return told(run, {**files, "node-3.trace": story.rows})


def _observer() -> Story:
    """Node 4 follows: it has the first voter set, and records up to offset 5, of which 4 are committed."""
    story = Story()
    story.start(4)
    story.role(4, "Unattached", 0)
    story.role(4, "Follower", 1, leader=1, was="Unattached")
    story.append(4, 0, 1, 1, voters=VOTERS)
    story.append(4, 1, 5, 1)
    story.sync(4, 5)
    story.commit(4, 4)
    return story


def _campaign(story: Story, ids: list[int], end: int) -> None:
    """Node 4 comes back with a log that ends there, and those voters in it, and asks for votes."""
    story.start(4, log_end=end, synced_end=end)
    story.note("role", 4, {"was": None}, role="Unattached", epoch=1, leader=None, voters=ids)
    story.note("role", 4, {"was": "Unattached"}, role="Follower", leader=1)
    story.commit(4, 4)
    story.note("role", 4, {"was": "Follower"}, role="Prospective", leader=None)


def _follow_a_removal(story: Story, offset: int) -> None:
    story.note("role", 4, {"was": "Prospective"}, role="Follower", epoch=2, leader=2)
    story.append(4, offset, offset + 1, 2, voters=WITHOUT_1)


@sound
def the_last_append_is_missing(run: str) -> list[Row]:
    """A kill has taken from the trace, not from the log, what made the node a voter."""
    story = _observer()
    _campaign(story, [1, 2, 3, 4], 6)
    _follow_a_removal(story, 6)
    return told(run, files_of(story, run))


@sound
def a_process_has_truncated_and_appended_unseen(run: str) -> list[Row]:
    """In the middle of the log, which ends where it did: the file of a process that has ended is missing."""
    story = _observer()
    story.note("end", 4, cause="killed")
    _campaign(story, [1, 2, 3, 4], 5)
    _follow_a_removal(story, 5)
    return told(run, {**files_of(story, run), "node-4.trace.1": files_of(_observer(), run)["node-4.trace"]})


@breaks("trace_members_campaign")
def an_observer_campaigns_after_it_was_stopped(run: str) -> list[Row]:
    """Nothing can be missing of its log."""
    story = _observer()
    story.note("end", 4, cause="stopped")
    _campaign(story, [1, 2, 3], 5)
    return told(run, files_of(story, run))


@breaks("trace_members_campaign")
def an_observer_campaigns_after_a_kill(run: str) -> list[Row]:
    """What it has of its log was committed before."""
    story = _observer()
    story.commit(4, 5)
    _campaign(story, [1, 2, 3], 5)
    return told(run, files_of(story, run))


def _adds_and_removes() -> Story:
    """Node 2, which leads, adds node 4 and then removes node 1."""
    story = clean()
    for offset, voters in ((5, FOUR), (6, WITHOUT_1)):
        for node in (2, 3):
            story.append(node, offset, offset + 1, 2, voters)
            story.sync(node, offset + 1)
        for node in (2, 3):
            story.commit(node, offset + 1)
    return story


def _without(story: Story, *missing: Row) -> list[Row]:
    return [row for row in story.rows if all(row is not one for one in missing)]


@sound
def what_added_a_voter_is_not_there(run: str) -> list[Row]:
    story = _adds_and_removes()
    missing = [_appended(story, node, 5) for node in (2, 3)]
    return told(run, {"trace": _without(story, *missing)}, seed=1)


@sound
def what_added_a_voter_is_damaged(run: str) -> list[Row]:
    """As a line of JSON may be: what follows it can be read."""
    story = _adds_and_removes()
    missing = [_appended(story, node, 5) for node in (2, 3)]
    nothing: dict[str, Any] = dict.fromkeys(story.rows[0])
    damaged = [{**nothing, "error": f"record {row['sequence'] + 2} at byte 7: no JSON"} for row in missing]
    return told(run, {"trace": [*_without(story, *missing), *damaged]}, seed=1)


@sound
def a_restart_is_not_there(run: str) -> list[Row]:
    """Of a simulated node: it begins with a high watermark that it knew before, and applies its log anew."""
    story = clean()
    story.note("end", 3, cause="killed")
    story.start(3, log_end=5, synced_end=5)
    started = story.rows[-1]
    story.role(3, "Unattached", 2)
    story.commit(3, 4)
    story.apply(3, 1, 4)
    return told(run, {"trace": _without(story, started)}, seed=1)


@sound
def the_first_commit_of_an_epoch_is_lost(run: str) -> list[Row]:
    """In its place stands that something was."""
    story = _adds_and_removes()
    first, second = (find(story, "high_watermark", 2, nth) for nth in (2, 3))
    assert (first["epoch"], first["high_watermark"]) == (2, 4)
    second.update(kind="lost", details={"events": 1})
    files = files_of(story, run)
    [at] = [
        at for at, row in enumerate(files["node-2.trace"]) if row["kind"] == "high_watermark" and row["epoch"] == 2
    ][:1]
    del files["node-2.trace"][at]
    later = [row for row in files["node-2.trace"][at:] if row["kind"] == "high_watermark"]
    for row in later:
        files["node-2.trace"].remove(row)
    return told(run, files)


def _appended(story: Story, node: int, offset: int) -> Row:
    return next(
        row
        for row in story.rows
        if (row["kind"], row["node"]) == ("append", node) and row["details"]["base_offset"] == offset
    )
