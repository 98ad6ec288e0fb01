"""The file `quorum-state`: epoch, leader and vote, one line of JSON, replaced atomically and durably.

Version 0 goes with kraft.version 0 (static voters, no directory ids), version 1 with kraft.version 1.  A second line,
which Kafka does not read, has the CRC-32C of the first, because a flipped bit in an epoch leaves valid JSON.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import attrs
import trio
from crc32c import crc32c

from kraft_trio.errors import StorageError
from kraft_trio.logs import get_logger
from kraft_trio.protocol.roles import ElectionState
from kraft_trio.protocol.types import NO_DIRECTORY_ID, ReplicaKey, directory_id_from_text, directory_id_to_text
from kraft_trio.protocol.voter_set import VoterSet
from kraft_trio.storage.disk.disk import Disk
from kraft_trio.storage.disk.disk_reserve import DiskReserve
from kraft_trio.storage.disk.failures import disk_full_error, is_disk_full, is_out_of_descriptors, storage_failure
from kraft_trio.storage.disk.unreadable import blank_text, shown

log = get_logger(__name__)

REPLACE_IT: Final = "replace this voter as if its disk were lost: a new directory id"
VOTE_LOST: Final = (
    f"{REPLACE_IT}; an only voter has the only copy: keep its directory, and run `kraft storage recover --unsafe-epoch`"
)
RETRY_S: Final = 0.1
"""Delay before retrying a write that found no free file descriptor."""
_NOBODY = -1
_SECOND_LINE: Final = re.compile(rb"([0-9a-f]{8})\n")


@attrs.frozen
class StoredVoters:
    """The static voters that a file names, and its epoch.  No ids at kraft.version 1, where the log has the voters."""

    epoch: int = 0
    ids: tuple[int, ...] = ()


def encode_quorum_state(state: ElectionState, kraft_version: int, static_voters: VoterSet) -> bytes:
    """Encode the first line as Kafka writes it, with its keys in the same order."""
    leader_id = _NOBODY if state.leader_id is None else state.leader_id
    voted = ReplicaKey(_NOBODY) if state.voted_key is None else state.voted_key
    fields: dict[str, Any]
    if kraft_version == 0:
        fields = {
            "clusterId": "",
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": id} for id in static_voters.ids],
            "data_version": 0,
        }
    else:
        fields = {
            "leaderId": leader_id,
            "leaderEpoch": state.epoch,
            "votedId": voted.id,
            "votedDirectoryId": directory_id_to_text(voted.directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def with_crc(line: bytes) -> bytes:
    """Return the file's content: the line and its CRC."""
    return b"%b\n%08x\n" % (line, crc32c(line))


def decode_quorum_state(path: str, data: bytes) -> ElectionState:
    """Decode the file.  A file that Kafka wrote has no second line, and is trusted without a CRC.

    Raises StorageError, naming file, field and expected value, because a vote must not be forgotten or invented.
    """
    return _decode(path, data)[0]


def stored_voters(path: str, data: bytes) -> StoredVoters:
    """The static voters that the file names.  Raises StorageError, as `decode_quorum_state` does."""
    return _decode(path, data)[1]


def _decode(path: str, data: bytes) -> tuple[ElectionState, StoredVoters]:
    blank = blank_text(data)
    if blank is not None:
        raise StorageError(f"{path}: {blank}, expected a line of JSON; {VOTE_LOST}")
    line, _, rest = data.partition(b"\n")
    decoded = _decode_line(path, line)
    second_line = _SECOND_LINE.fullmatch(rest)
    if rest and (second_line is None or int(second_line[1], 16) != crc32c(line)):
        raise StorageError(
            f"{path}: line 2: {shown(rest.strip())}, expected the CRC-32C of line 1, {crc32c(line):08x}: "
            f"the file is damaged, and what this node has voted for is not known; {VOTE_LOST}"
        )
    return decoded


def _decode_line(path: str, line: bytes) -> tuple[ElectionState, StoredVoters]:
    try:
        fields = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path}: not a line of JSON: {error}; {VOTE_LOST}") from None
    if not isinstance(fields, dict):
        raise StorageError(f"{path}: {type(fields).__name__}, expected an object")
    version = _integer(path, fields, "data_version", 0, 1)
    epoch = _integer(path, fields, "leaderEpoch", 0)
    leader_id = _integer(path, fields, "leaderId", _NOBODY)
    voted_id = _integer(path, fields, "votedId", _NOBODY)
    voted_directory_id = NO_DIRECTORY_ID
    if version == 1:
        text = fields.get("votedDirectoryId")
        try:
            voted_directory_id = directory_id_from_text(text if isinstance(text, str) else "")
        except ValueError:
            raise StorageError(f"{path}: votedDirectoryId {text!r}, expected a UUID as Kafka writes it") from None
        if voted_id == _NOBODY and voted_directory_id != NO_DIRECTORY_ID:
            nobody = directory_id_to_text(NO_DIRECTORY_ID)
            raise StorageError(f"{path}: votedDirectoryId {text!r} with votedId {_NOBODY}, expected {nobody!r}")
    state = ElectionState(
        epoch,
        None if leader_id == _NOBODY else leader_id,
        None if voted_id == _NOBODY else ReplicaKey(voted_id, voted_directory_id),
    )
    return state, StoredVoters(epoch, _voter_ids(path, fields) if version == 0 else ())


def _voter_ids(path: str, fields: dict[str, Any]) -> tuple[int, ...]:
    voters = fields.get("currentVoters", [])
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise StorageError(f"{path}: currentVoters {voters!r}, expected a list of objects")
    return tuple(sorted({_integer(path, voter, "voterId", 0) for voter in voters}))


def _integer(path: str, fields: dict[str, Any], name: str, minimum: int, maximum: int = 2**31 - 1) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
        raise StorageError(f"{path}: {name} {value!r}, expected a whole number from {minimum} to {maximum}")
    return value


class QuorumStateFile:
    """The quorum-state of one replica; Election is its only writer."""

    def __init__(self, disk: Disk, path: str, reserve: DiskReserve | None = None) -> None:
        """`reserve` is released when the disk is full."""
        self._disk = disk
        self._path = path
        self._reserve = reserve
        self.voters = StoredVoters()
        """What the file names, as it was last read or written."""

    def read(self) -> ElectionState | None:
        """Return the stored state, or None if there is no file.  Raises StorageError if the file is damaged."""
        try:
            data = self._disk.read_bytes(self._path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"{self._path}: cannot be read: {error.strerror or error}") from error
        state, self.voters = _decode(self._path, data)
        return state

    async def write(self, state: ElectionState, kraft_version: int, static_voters: VoterSet) -> None:
        """Store the state durably, and at kraft.version 0 the static voters.  Shielded during the write itself.

        On a full disk, retries once after releasing the reserve.  Without a free file descriptor, retries until there
        is one; the caller tells nobody of the new state meanwhile.  If it is cancelled during that wait, the state is
        not stored.  Raises StorageFailure.
        """
        content = with_crc(encode_quorum_state(state, kraft_version, static_voters))
        while True:
            try:
                await self._disk.replace(self._path, content)
                self.voters = StoredVoters(state.epoch, static_voters.ids if kraft_version == 0 else ())
                return
            except OSError as error:
                if is_out_of_descriptors(error):
                    log.warning("quorum state not written yet", path=self._path, reason=str(error))
                elif self._release_reserve(error, len(content)):
                    continue
                else:
                    raise storage_failure(f"{self._path}: cannot be written", error) from error
            await trio.sleep(RETRY_S)

    def _release_reserve(self, error: OSError, size: int) -> bool:
        """Release the reserve if the disk is full.  Returns whether that freed room for a retry."""
        if self._reserve is None or not is_disk_full(error):
            return False
        return self._reserve.release(disk_full_error(f"{self._path}: {size} bytes cannot be written", error))
