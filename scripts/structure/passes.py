"""The files of the package that an append, a vote and a new voter pass through.

This is a program of its own, because it must import the package of the checkout that it measures: `passes_of` runs it.
It works in the simulator, and notes in which files the nodes run between a request and its answer.  The simulator's own
files are left out, and so are files that the same node runs while nothing is asked of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import attrs
import trio

QUIET_S: Final = 10.0
"""How long nothing is asked of the nodes, in virtual time, while it is noted what they run."""

WITHIN_S: Final = 60.0
"""Limit for each request, in virtual time."""

VOTERS: Final = 3
NEW_VOTER: Final = VOTERS + 1
NOT_OF_NODES: Final = ("simulation", "testing")
"""The packages that run the nodes instead of being run by them."""
BELOW_NODES: Final = frozenset({("simulation", "deterministic.py"), ("simulation", "machine.py")})
"""What they call is the node's own, unlike what the simulator's checks call."""

BELOW_TASKS: Final = frozenset({__file__, str(Path(trio.__file__).parent / "_core" / "_run.py")})
"""The files that make requests and that run tasks."""


@attrs.frozen
class Pass:
    """The files that one request passes through."""

    asked: int
    """The node that answers."""
    files: dict[int, set[str]]
    """By node id."""

    @property
    def there(self) -> set[str]:
        """The files on the node that answers, as paths from the package."""
        return self.files.get(self.asked, set())

    @property
    def anywhere(self) -> set[str]:
        return set().union(*self.files.values())


def passes_of(root: Path) -> dict[str, Pass]:
    """Measure the checkout at `root`: an append, a vote and a new voter, by name.

    Raises CalledProcessError if its simulator differs too much from today's.
    """
    program = subprocess.run(
        [sys.executable, "-P", __file__],
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {
        name: Pass(asked, {int(node): set(files) for node, files in by_node.items()})
        for name, (asked, by_node) in json.loads(program.stdout).items()
    }


class Notes:
    """Notes which files of a package each process runs, while it is on."""

    def __init__(self, package: Path, process: Callable[[], object]) -> None:
        """`process` returns the node id of the running task, or None outside nodes."""
        self._package = f"{package}{os.sep}"
        self._process = process
        self._places: dict[str, tuple[str, ...] | None] = {}
        self._seen: set[tuple[object, CodeType]] = set()
        self.files: dict[int, set[str]] = defaultdict(set)

    def __enter__(self) -> Notes:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        place = self._place(frame)
        if place is None or place[0] in NOT_OF_NODES:
            return
        node = self._process()
        if not isinstance(node, int) or (node, frame.f_code) in self._seen or self._is_for_simulator(frame):
            return
        self._seen.add((node, frame.f_code))
        self.files[node].add("/".join(place))

    def _place(self, frame: FrameType) -> tuple[str, ...] | None:
        """The path of a frame's file from the package; None if it is not there."""
        name = frame.f_code.co_filename
        if name not in self._places:
            own = name.startswith(self._package)
            self._places[name] = tuple(name[len(self._package) :].split(os.sep)) if own else None
        return self._places[name]

    def _is_for_simulator(self, frame: FrameType) -> bool:
        """Whether the simulator has called it, as its checks of a log do."""
        caller = frame.f_back
        while caller is not None and caller.f_code.co_filename not in BELOW_TASKS:
            place = self._place(caller)
            if place is not None and place[0] in NOT_OF_NODES and place not in BELOW_NODES:
                return True
            caller = caller.f_back
        return False


def measure(*names: str, runs: int = 2) -> dict[str, Pass]:
    """Run these requests, by default all, in simulated clusters of the package that this process imports.

    The last run counts.  Earlier ones also make what a process makes once, such as the functions that read the messages
    of an API.
    """
    from kraft_trio.simulation.cluster import simulate

    requests = {"append": _append, "vote": _vote, "new voter": _new_voter}
    return {
        name: [simulate(requests[name], voters=VOTERS, observers=1) for _ in range(runs)][-1]
        for name in names or requests
    }


async def _append(cluster: Any) -> Pass:
    """The application on the leader appends a value."""
    leader, quiet = await _quiet(cluster)
    notes = _notes()
    with cluster.machines[leader.key.id].in_process(), notes:
        await leader.append([b"value"])
    return _without(quiet, notes, leader.key.id)


async def _vote(cluster: Any) -> Pass:
    """The leader dies, and another node asks for a vote."""
    leader, quiet = await _quiet(cluster)
    request = _Request(cluster, "Vote", lambda vote: not vote.pre_vote)
    cluster.machines[leader.key.id].kill()
    await cluster.wait_for_leader(other_than=leader, within_s=WITHIN_S)
    return _without(quiet, request.notes, request.asked)


async def _new_voter(cluster: Any) -> Pass:
    """An observer becomes a voter."""
    leader, quiet = await _quiet(cluster)
    request = _Request(cluster, "AddRaftVoter")
    adding = cluster.administrator.add_voter(NEW_VOTER, at=leader.key.id, within_s=WITHIN_S)
    await adding.ended.wait()
    assert NEW_VOTER in leader.view.voters.ids, adding.operation.problem
    return _without(quiet, request.notes, request.asked)


class _Request:
    """Takes notes from when the first request of an API is sent until its response is sent."""

    def __init__(self, cluster: Any, api: str, is_meant: Callable[[Any], bool] = lambda _: True) -> None:
        self._api = api
        self._is_meant = is_meant
        self._request: Any = None
        self._nodes = {machine.host: id for id, machine in cluster.machines.items()}
        self.notes = _notes()
        cluster.message_listeners.append(self._heard)

    @property
    def asked(self) -> int:
        """The node that answers."""
        return self._nodes[self._request.target]

    def _heard(self, message: Any) -> None:
        if message.delivered or message.api is None or message.api.name != self._api:
            return
        if message.is_request and self._request is None and self._is_meant(message.value):
            self._request = message
            self.notes.__enter__()
        elif not message.is_request and message.request is self._request:
            self.notes.__exit__()


async def _quiet(cluster: Any) -> tuple[Any, dict[int, set[str]]]:
    """Wait for a leader, and note what the nodes run while nothing is asked of them."""
    from kraft_trio.simulation.deterministic import sleep

    leader = await cluster.wait_for_leader(within_s=WITHIN_S)
    await cluster.wait_until_alike(within_s=WITHIN_S)
    notes = _notes()
    with notes:
        await sleep(QUIET_S)
    assert cluster.leader() is leader, "another node leads, although nothing has happened"
    return leader, notes.files


def _notes() -> Notes:
    import kraft_trio
    from kraft_trio.simulation.deterministic import process

    return Notes(Path(kraft_trio.__file__).parent, process.get)


def _without(quiet: dict[int, set[str]], notes: Notes, asked: int) -> Pass:
    return Pass(asked, {node: files - quiet.get(node, set()) for node, files in notes.files.items()})


def main() -> None:
    """Print the passes as JSON, for `passes_of`."""
    passes = measure().items()
    print(
        json.dumps({name: (one.asked, {id: sorted(files) for id, files in one.files.items()}) for name, one in passes})
    )


if __name__ == "__main__":
    main()
