"""The voter sets and kraft.versions of a log, by offset (KIP-853, "Voters" and "Snapshots").

A VotersRecord is in force as soon as it is in the log, committed or not.  Truncating it restores the earlier set
(invariant VotersInForce).  A snapshot's set sits at the last offset that the snapshot covers.  The bootstrap snapshot
covers nothing, so its set sits at -1.  Without any set, the static voters of the configuration are in force.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, Generic, TypeVar

from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey
from kraft_trio.protocol.voter_set import VoterSet

BOOTSTRAP_OFFSET = -1
"""The offset of the 0-0 snapshot's voters and kraft.version: before the first record."""

MAX_REMOVED: Final = 1000
"""The largest number of removed voters that a log remembers.  It forgets the oldest first."""

T = TypeVar("T")


class _History(Generic[T]):
    """Values by strictly increasing offsets; `initial` holds before the first of them."""

    __slots__ = ("initial", "name", "newest", "offsets", "values")

    def __init__(self, name: str, initial: T) -> None:
        self.name = name
        self.initial = initial
        self.newest = initial
        self.offsets: list[int] = []
        self.values: list[T] = []

    def add(self, offset: int, value: T) -> None:
        lowest = self.offsets[-1] + 1 if self.offsets else BOOTSTRAP_OFFSET
        if offset < lowest:
            raise ValueError(f"{self.name}: offset {offset}, expected {lowest} or more, after the newest entry")
        self.offsets.append(offset)
        self.values.append(value)
        self.newest = value

    def at(self, offset: int) -> T:
        newest = bisect_right(self.offsets, offset) - 1
        return self.values[newest] if newest >= 0 else self.initial

    def truncate_to(self, offset: int) -> bool:
        keep = bisect_left(self.offsets, offset)
        if keep == len(self.offsets):
            return False
        del self.offsets[keep:]
        del self.values[keep:]
        self.newest = self.values[-1] if self.values else self.initial
        return True

    def trim_prefix_to(self, offset: int) -> None:
        superseded = bisect_left(self.offsets, offset) - 1
        if superseded > 0:
            del self.offsets[:superseded]
            del self.values[:superseded]


def removed_after(removed: tuple[ReplicaKey, ...], before: VoterSet, after: VoterSet) -> tuple[ReplicaKey, ...]:
    """The removed voters, oldest first, after the set `after` has followed `before`.  A voter in `after` is not one.

    This is a function of the log alone, so all replicas' snapshots of one id name the same voters.
    """
    known = [key for key in removed if not _names(after, key)]
    gone = sorted(voter.key for voter in before if not _names(after, voter.key))
    return tuple([*known, *(key for key in gone if key.directory_id != NO_DIRECTORY_ID)][-MAX_REMOVED:])


def _names(voters: VoterSet, key: ReplicaKey) -> bool:
    voter = voters.get(key.id)
    return voter is not None and voter.key == key


class VoterHistory:
    """The voter sets and kraft.versions of one log.  Each is in force from its offset (inclusive) on.

    Only the log that owns this object changes it, in the step in which it appends or truncates (rule R2).
    """

    __slots__ = ("_kraft_versions", "_removed", "_targets", "_voters")

    def __init__(self, static_voters: VoterSet) -> None:
        self._voters = _History("voters", static_voters)
        self._kraft_versions = _History("kraft.version", 0)
        # Their offsets are those of the voters.
        self._removed: _History[tuple[ReplicaKey, ...]] = _History("removed voters", ())
        self._targets: _History[tuple[ReplicaKey, ...]] = _History("target voters", ())

    def add_voters(self, offset: int, voters: VoterSet, target: tuple[ReplicaKey, ...] = ()) -> None:
        """Add the VotersRecord at `offset`.  Raises ValueError if that is not above all earlier ones."""
        # The static voters are the configuration's, which may differ from replica to replica.
        before = self._voters.newest if self._voters.offsets else VoterSet()
        self._voters.add(offset, voters)
        self._removed.add(offset, removed_after(self._removed.newest, before, voters))
        self._targets.add(offset, target)

    def add_kraft_version(self, offset: int, version: int) -> None:
        """Add the KRaftVersionRecord at `offset`.  Raises ValueError if that is not above all earlier ones."""
        self._kraft_versions.add(offset, version)

    def truncate_to(self, offset: int) -> bool:
        """Drop everything from `offset` on, where the log now ends.  Returns whether anything was dropped."""
        self._removed.truncate_to(offset)
        self._targets.truncate_to(offset)
        voters_dropped = self._voters.truncate_to(offset)
        return self._kraft_versions.truncate_to(offset) or voters_dropped

    def trim_prefix_to(self, offset: int) -> None:
        """Drop all but the newest entry below `offset`, where the log now starts and a snapshot ends.

        That entry stays because one *at* `offset` may still be truncated.
        """
        self._voters.trim_prefix_to(offset)
        self._removed.trim_prefix_to(offset)
        self._targets.trim_prefix_to(offset)
        self._kraft_versions.trim_prefix_to(offset)

    def install_snapshot(
        self,
        end_offset: int,
        voters: VoterSet | None,
        kraft_version: int,
        removed: tuple[ReplicaKey, ...] = (),
        target: tuple[ReplicaKey, ...] = (),
    ) -> None:
        """Replace everything by the content of a snapshot that ends at `end_offset` (exclusive; scenario S11).

        `voters` is None for a snapshot without a VotersRecord (kraft.version 0).  The static voters are then in force.
        `removed` and `target` are the removed voters and the target of a reassignment that the snapshot names.
        """
        self.truncate_to(BOOTSTRAP_OFFSET)
        if voters is not None:
            self._voters.add(end_offset - 1, voters)
            self._removed.add(end_offset - 1, removed)
            self._targets.add(end_offset - 1, target)
        if kraft_version:
            self.add_kraft_version(end_offset - 1, kraft_version)

    @property
    def static_voters(self) -> VoterSet:
        """The voters of the configuration, which are in force only while no VotersRecord is known."""
        return self._voters.initial

    @property
    def ignores_static_voters(self) -> bool:
        """Whether the configuration names voters that a VotersRecord overrides."""
        return len(self.static_voters) > 0 and self.voters_offset is not None

    @property
    def voters(self) -> VoterSet:
        """The voter set in force: the newest one, committed or not."""
        return self._voters.newest

    @property
    def kraft_version(self) -> int:
        """The newest kraft.version, committed or not; 0 if none was written."""
        return self._kraft_versions.newest

    @property
    def voters_offset(self) -> int | None:
        """The offset of the set in force; -1 for that of the bootstrap snapshot, None for the static voters."""
        return self._voters.offsets[-1] if self._voters.offsets else None

    @property
    def came_from_bootstrap(self) -> bool:
        """Whether the set in force is that of the 0-0 snapshot.  A new leader writes it into the log."""
        return self.voters_offset == BOOTSTRAP_OFFSET

    def voters_at(self, offset: int) -> VoterSet:
        """The voter set in force after the record at `offset`."""
        return self._voters.at(offset)

    def kraft_version_at(self, offset: int) -> int:
        """The kraft.version in force after the record at `offset`."""
        return self._kraft_versions.at(offset)

    @property
    def removed(self) -> tuple[ReplicaKey, ...]:
        """The former voters that are not in the newest set, committed or not.  Oldest first, at most MAX_REMOVED."""
        return self._removed.newest

    def removed_at(self, offset: int) -> tuple[ReplicaKey, ...]:
        """The former voters after the record at `offset`."""
        return self._removed.at(offset)

    @property
    def target(self) -> tuple[ReplicaKey, ...]:
        """The target voters of the quorum, as the newest set says; empty without a reassignment (KIP-642)."""
        return self._targets.newest

    def target_at(self, offset: int) -> tuple[ReplicaKey, ...]:
        """The target after the record at `offset`."""
        return self._targets.at(offset)

    def uncommitted(self, high_watermark: int | None) -> tuple[int, ...]:
        """The offsets of VotersRecords at or above the high watermark (exclusive), at most one on a leader.

        See invariant OneUncommittedVoterChange.  If the high watermark is unknown (None), all of them may be
        uncommitted.
        """
        offsets = self._voters.offsets
        return tuple(offsets[bisect_left(offsets, high_watermark if high_watermark is not None else 0) :])

    def has_uncommitted_change(self, high_watermark: int | None) -> bool | None:
        """Whether the newest voter set is uncommitted.  None if that takes a high watermark that is unknown."""
        may_be_uncommitted = bool(self.uncommitted(high_watermark))
        return None if may_be_uncommitted and high_watermark is None else may_be_uncommitted
