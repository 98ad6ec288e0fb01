"""Steps of disks."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from kraft_trio.simulation.facts.replica import election_state_on
from kraft_trio.simulation.script.parts import DURATION, NODE, NumberPart, choice
from kraft_trio.simulation.script.steps import NotAsExpected, Step, flag, part, register
from kraft_trio.storage.disk.disk import join
from kraft_trio.storage.disk.part_file import PART_SUFFIX
from kraft_trio.storage.disk.partition_files import CHECKPOINT, DELETED, QUORUM_STATE, checkpoint_ids, checkpoint_name

if TYPE_CHECKING:
    from kraft_trio.simulation.cluster import Cluster
    from kraft_trio.simulation.disk.inode import Loss
    from kraft_trio.simulation.facts.entry import Entry
    from kraft_trio.simulation.machine import Machine

BYTES: Final = NumberPart("BYTES", "a number of bytes")
CALLS: Final = NumberPart("CALLS", "a number of calls")
_ANY: Final = 2**62
_READS: Final = frozenset({"read_at", "read_bytes", "view", "list_directory", "forget_cached"})
_CHANGED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshot": (CHECKPOINT, CHECKPOINT + PART_SUFFIX),
    "trim": (DELETED,),
}
"""By part of the storage's work, the endings of the names of the files that it changes."""

_HEADER_BEFORE_CRC: Final = 21
"""The bytes of a batch that its CRC does not cover: base offset, length, epoch, magic, and the CRC itself."""


@register
@attrs.frozen
class SlowDisk(Step):
    """Makes every fsync of a machine take this long."""

    verb: ClassVar[str] = "slow-disk"
    node: int = part(NODE)
    duration_us: int = part(DURATION)

    async def take(self, cluster: Cluster) -> None:
        latency_s = self.duration_us / 1e6
        cluster.machines[self.node].disk.sync_latency = lambda: latency_s


@attrs.frozen
class _FailingCall(Step):
    node: int = part(NODE)
    of: str = part(choice("any", "snapshot"), after="of", default="any")
    _operation: ClassVar[str]

    async def take(self, cluster: Cluster) -> None:
        machine = cluster.machines[self.node]
        if machine.is_running:
            machine.excuse(f"{self.verb}: an injected error of the disk")
            machine.disk.fail(self._operation, name=PART_SUFFIX if self.of == "snapshot" else "", code=errno.EIO)


@register
@attrs.frozen
class FailSync(_FailingCall):
    """Makes a node's next fsync fail and lose its data; later fsyncs succeed."""

    verb: ClassVar[str] = "fail-sync"
    _operation: ClassVar[str] = "sync"


@register
@attrs.frozen
class FailWrite(_FailingCall):
    """Makes a node's next write fail."""

    verb: ClassVar[str] = "fail-write"
    _operation: ClassVar[str] = "append"


@register
@attrs.frozen
class FullDisk(Step):
    """Limits a disk's free space to this many bytes; larger writes fail."""

    verb: ClassVar[str] = "full-disk"
    node: int = part(NODE)
    room_bytes: int = part(BYTES, default=0)

    async def take(self, cluster: Cluster) -> None:
        machine = cluster.machines[self.node]
        machine.excuse("full-disk: no room is left on the disk")
        machine.disk.capacity = _ANY
        room = machine.disk.room()
        assert room is not None, "it has just been given a capacity"
        machine.disk.capacity = _ANY - room + self.room_bytes


@register
@attrs.frozen
class FreeDisk(Step):
    """Frees space on a full disk."""

    verb: ClassVar[str] = "free-disk"
    node: int = part(NODE)

    async def take(self, cluster: Cluster) -> None:
        cluster.machines[self.node].disk.capacity = None


@register
@attrs.frozen
class CrashIn(Step):
    """Cuts a machine's power just before its CALLS-th next storage call.

    `of snapshot` counts only calls that write or rename snapshots; `of trim` counts only calls that retire and remove
    segments and old snapshots.
    """

    verb: ClassVar[str] = "crash-in"
    node: int = part(NODE)
    calls: int = part(CALLS)
    lose: Loss = part(choice("all", "some", "reordered"), default="all")
    of: str = part(choice("any", *_CHANGED_BY), after="of", default="any")

    async def take(self, cluster: Cluster) -> None:
        machine, calls = cluster.machines[self.node], max(1, self.calls)
        point = machine.disk.calls + calls if self.of == "any" else _Countdown(_CHANGED_BY[self.of], calls)
        machine.disk.crash_at(point, crash=lambda: machine.crash(self.lose))


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


@register
@attrs.frozen
class Rot(Step):
    """Flips a bit: inside the log before intact batches, in the newest snapshot, or in quorum-state."""

    verb: ClassVar[str] = "rot"
    node: int = part(NODE)
    file: str = part(choice("log", "quorum-state", "snapshot"), default="log")

    async def take(self, cluster: Cluster) -> None:
        machine = cluster.machines[self.node]
        if not cluster.survivability.permits_loss_of(cluster.key_of(self.node)):
            return
        place = _PLACES[self.file](machine)
        if place is None:
            return
        path, position = place
        machine.damage(path, position, f"rot: one byte of {path} is damaged")


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


@register
@attrs.frozen
class BlankDisk(Step):
    """Cuts a machine's power and inserts a new disk, formatted with the same id."""

    verb: ClassVar[str] = "blank-disk"
    node: int = part(NODE)

    async def take(self, cluster: Cluster) -> None:
        _demand_directory_ids(cluster, self.verb)
        if not cluster.survivability.permits_loss_of(cluster.key_of(self.node)):
            return
        cluster.survivability.may_be_lost |= not cluster.survivability.is_guarded
        machine = cluster.machines[self.node]
        machine.device.is_being_replaced = True
        machine.crash("all")
        await machine.wait_until_ended()
        machine.replace_disk()


@register
@attrs.frozen
class KeepDisk(Step):
    """Copies a machine's current disk for `stale-disk`."""

    verb: ClassVar[str] = "keep-disk"
    node: int = part(NODE)

    async def take(self, cluster: Cluster) -> None:
        machine = cluster.machines[self.node]
        machine.kept_disk, machine.kept_key = machine.disk.copy(), cluster.key_of(self.node)


@register
@attrs.frozen
class StaleDisk(Step):
    """Cuts a machine's power and inserts the copy made by `keep-disk`.

    `if-spared` does nothing if anything acknowledged could be lost, or if there is no copy of the present directory.
    """

    verb: ClassVar[str] = "stale-disk"
    node: int = part(NODE)
    if_spared: bool = flag("if-spared")

    async def take(self, cluster: Cluster) -> None:
        machine = cluster.machines[self.node]
        loses_nothing = _loses_nothing(cluster, machine)
        if self.if_spared and not loses_nothing:
            return
        if machine.kept_disk is None:
            raise NotAsExpected(f"stale-disk {self.node}: no disk was kept; expected keep-disk {self.node} before")
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


def _demand_directory_ids(cluster: Cluster, verb: str) -> None:
    if cluster.setup.kraft_version == 0:
        raise NotAsExpected(f"{verb}: kraft-version 0 has no directory ids to tell one disk from another; expected 1")
