"""Steps of disks."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Mapping
from typing import Annotated, Final

from kraft_trio.simulation.cluster import Cluster
from kraft_trio.simulation.facts.entry import Entry
from kraft_trio.simulation.facts.replica import election_state_on
from kraft_trio.simulation.machine import Machine
from kraft_trio.simulation.script.parts import Duration, Lose, Node, choice, number
from kraft_trio.simulation.script.step import NotAsExpected, step
from kraft_trio.storage.disk.disk import join
from kraft_trio.storage.disk.part_file import PART_SUFFIX
from kraft_trio.storage.disk.partition_files import CHECKPOINT, DELETED, QUORUM_STATE, checkpoint_ids, checkpoint_name

_ANY: Final = 2**62
_READS: Final = frozenset({"read_at", "read_bytes", "view", "list_directory", "forget_cached"})
_CHANGED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshot": (CHECKPOINT, CHECKPOINT + PART_SUFFIX),
    "trim": (DELETED,),
}
"""By part of the storage's work, the endings of the names of the files that it changes."""

_HEADER_BEFORE_CRC: Final = 21
"""The bytes of a batch that its CRC does not cover: base offset, length, epoch, magic, and the CRC itself."""

CallsOf = Annotated[str, choice("any", "snapshot")]


@step
async def slow_disk(cluster: Cluster, node: Node, duration_us: Duration) -> None:
    """Makes every fsync of a machine take this long."""
    cluster.machines[node].disk.sync_latency = lambda: duration_us / 1e6


@step
async def fail_sync(cluster: Cluster, node: Node, *, of: CallsOf = "any") -> None:
    """Makes a node's next fsync fail and lose its data; later fsyncs succeed."""
    _fail(cluster.machines[node], "fail-sync", "sync", of)


@step
async def fail_write(cluster: Cluster, node: Node, *, of: CallsOf = "any") -> None:
    """Makes a node's next write fail."""
    _fail(cluster.machines[node], "fail-write", "append", of)


def _fail(machine: Machine, verb: str, operation: str, of: str) -> None:
    if machine.is_running:
        machine.excuse(f"{verb}: an injected error of the disk")
        machine.disk.fail(operation, name=PART_SUFFIX if of == "snapshot" else "", code=errno.EIO)


@step
async def full_disk(
    cluster: Cluster, node: Node, room_bytes: Annotated[int, number("BYTES", "a number of bytes")] = 0
) -> None:
    """Limits a disk's free space to this many bytes; larger writes fail."""
    machine = cluster.machines[node]
    machine.excuse("full-disk: no room is left on the disk")
    machine.disk.capacity = _ANY
    room = machine.disk.room()
    assert room is not None, "it has just been given a capacity"
    machine.disk.capacity = _ANY - room + room_bytes


@step
async def free_disk(cluster: Cluster, node: Node) -> None:
    """Frees space on a full disk."""
    cluster.machines[node].disk.capacity = None


@step
async def crash_in(
    cluster: Cluster,
    node: Node,
    calls: Annotated[int, number("CALLS", "a number of calls")],
    lose: Lose = "all",
    *,
    of: Annotated[str, choice("any", *_CHANGED_BY)] = "any",
) -> None:
    """Cuts a machine's power just before its CALLS-th next storage call.

    `of snapshot` counts only calls that write or rename snapshots; `of trim` counts only calls that retire and remove
    segments and old snapshots.
    """
    machine, calls = cluster.machines[node], max(1, calls)
    point = machine.disk.calls + calls if of == "any" else _Countdown(_CHANGED_BY[of], calls)
    machine.disk.crash_at(point, crash=lambda: machine.crash(lose))


class _Countdown:
    """Counts the calls that change files with these suffixes, or make their names durable, and picks the last one."""

    def __init__(self, suffixes: tuple[str, ...], calls: int) -> None:
        self._suffixes = suffixes
        self._left = calls
        self._has_renamed = False

    def __call__(self, operation: str, path: str) -> bool:
        is_one = path.endswith(self._suffixes) or (operation == "sync_directory" and self._has_renamed)
        if not is_one or operation in _READS:
            return False
        self._has_renamed = operation in ("rename", "remove")
        self._left -= 1
        return not self._left


@step
async def rot(
    cluster: Cluster, node: Node, file: Annotated[str, choice("log", "quorum-state", "snapshot")] = "log"
) -> None:
    """Flips a bit: inside the log before intact batches, in the newest snapshot, or in quorum-state."""
    machine = cluster.machines[node]
    if cluster.survivability.permits_loss_of(cluster.key_of(node)) and (place := _PLACES[file](machine)) is not None:
        machine.damage(*place, f"rot: one byte of {place[0]} is damaged")


def _in_quorum_state(machine: Machine) -> tuple[str, int] | None:
    path = join(machine.partition_path, QUORUM_STATE)
    return (path, 0) if machine.disk.durable_bytes(path) else None


def _in_newest_snapshot(machine: Machine) -> tuple[str, int] | None:
    ids = [id for id in checkpoint_ids(machine.disk.peek_names(machine.partition_path)) if id.offset]
    path = join(machine.partition_path, checkpoint_name(ids[-1])) if ids else ""
    size = machine.disk.durable_size(path) if ids else None
    return (path, size // 2) if size else None


def _in_log(machine: Machine) -> tuple[str, int] | None:
    entry = _inner_entry(machine)
    return None if entry is None else (entry.path, entry.position + (_HEADER_BEFORE_CRC + entry.size) // 2)


_PLACES: Final[Mapping[str, Callable[[Machine], tuple[str, int] | None]]] = {
    "log": _in_log,
    "quorum-state": _in_quorum_state,
    "snapshot": _in_newest_snapshot,
}
"""For each kind of file, finds the path and position to damage; None if there is nothing to damage."""


def _inner_entry(machine: Machine) -> Entry | None:
    """The middle one of the durable batches that have another batch after them in their file."""
    if (replica := machine.replica) is None:
        return None
    held = [entry for entry in replica.entries if entry.path and replica.has_durably(entry)]
    inner = [entry for entry, following in itertools.pairwise(held) if entry.path == following.path]
    return inner[len(inner) // 2] if inner else None


@step
async def blank_disk(cluster: Cluster, node: Node) -> None:
    """Cuts a machine's power and inserts a new disk, formatted with the same id."""
    demand_directory_ids(cluster, "blank-disk", "one disk from another")
    if cluster.survivability.permits_loss_of(cluster.key_of(node)):
        cluster.survivability.may_be_lost |= not cluster.survivability.is_guarded
        await insert_blank_disk(cluster.machines[node])


async def insert_blank_disk(machine: Machine) -> None:
    """Cut the machine's power, and replace its disk."""
    machine.device.is_being_replaced = True
    machine.crash("all")
    await machine.wait_until_ended()
    machine.replace_disk()


def demand_directory_ids(cluster: Cluster, verb: str, what: str) -> None:
    """Raises NotAsExpected if the cluster has no directory ids to tell `what`."""
    if cluster.setup.kraft_version == 0:
        raise NotAsExpected(f"{verb}: kraft-version 0 has no directory ids to tell {what}; expected 1")


@step
async def keep_disk(cluster: Cluster, node: Node) -> None:
    """Copies a machine's current disk for `stale-disk`."""
    machine = cluster.machines[node]
    machine.kept_disk, machine.kept_key = machine.disk.copy(), cluster.key_of(node)


@step
async def stale_disk(cluster: Cluster, node: Node, *, if_spared: bool = False) -> None:
    """Cuts a machine's power and inserts the copy made by `keep-disk`.

    `if-spared` does nothing if anything acknowledged could be lost, or if there is no copy of the present directory.
    """
    machine = cluster.machines[node]
    loses_nothing = _loses_nothing(cluster, machine)
    if if_spared and not loses_nothing:
        return
    if machine.kept_disk is None:
        raise NotAsExpected(f"stale-disk {node}: no disk was kept; expected keep-disk {node} before")
    cluster.facts.may_lose = cluster.facts.may_lose or not loses_nothing
    machine.crash("all")
    await machine.wait_until_ended()
    machine.replace_disk(machine.kept_disk.copy())


def _loses_nothing(cluster: Cluster, machine: Machine) -> bool:
    """Whether the machine may get back the disk that was kept, and no protocol could lose anything by that."""
    kept, replica = machine.kept_disk, machine.replica
    if kept is None or replica is None or machine.kept_key != replica.key or machine.has_bad_disk:
        return False
    state = election_state_on(kept, machine.partition_path)
    return state is not None and cluster.survivability.permits_return_of(replica, state)
