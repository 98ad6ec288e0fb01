"""The errors of the library.  Each message names the thing, its value and what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar
from uuid import UUID


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors in nested exception groups, or the error itself if it is no group."""
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from leaves(member)
    else:
        yield error


class KraftError(Exception):
    """Base class of all errors of this library."""

    exit_code: ClassVar[int] = 1
    """Exit code of a `kraft` command that ends with this error."""


class UnsupportedSystemError(KraftError):
    """What was imported does not run on this operating system."""


class ConfigError(KraftError):
    """A configuration key or command-line value that cannot be used."""


class AddressError(ConfigError):
    """An address cannot be bound.  It may be free, or there, later."""


class StorageError(KraftError):
    """A directory, or a file in it, cannot be used.  Nothing was changed."""


class UnavailableDirectoryError(StorageError):
    """The directory is not there, not formatted or cannot be read.  Its disk may be mounted later."""


class CorruptLogError(StorageError):
    """The log is damaged beyond a torn tail.  Names file, position and reason.  The node must not vote."""


class CorruptSnapshotError(StorageError):
    """A snapshot is damaged or incomplete.  Names file, position and what was expected."""


class StorageFailure(KraftError):
    """A write or fsync failed.  The storage is poisoned: all later calls raise the same error."""

    exit_code = 3


class DiskFullError(StorageFailure):
    """The disk has no room for a write.  Names the file, the bytes and the remedy.  Earlier data is intact."""

    exit_code = 4


class DamagedLogError(StorageFailure, CorruptLogError):
    """A read found damage in an open log.  The node hands over and ends, and the next start checks the whole log."""


class AlreadyLockedError(UnavailableDirectoryError):
    """Another process holds the directory's lock."""


class ProtocolError(KraftError):
    """A peer or client sent bytes that violate the protocol."""


class NetworkError(KraftError):
    """A request got no response: the connection was refused, cut or timed out.  It may or may not have taken effect."""


class UnsupportedVersionError(KraftError):
    """The peer has no version of the API that can carry the request."""


class ApiNotServedError(UnsupportedVersionError):
    """The peer does not serve the API: it is too old, or the listener is not meant for it."""


class NotAppendedError(KraftError):
    """The values were not appended and never will be.  It is safe to append them again."""


class NotLeaderError(NotAppendedError):
    """The request needs the leader, and this node does not lead."""


class OffsetOutOfRangeError(KraftError, ValueError):
    """The offset is before the start of the log or beyond its end."""

    is_trimmed = False
    """Whether the log is known to begin after the offset."""


class SerdeError(KraftError):
    """A value cannot be encoded, or bytes cannot be decoded.  Names the tag, the version or the class."""


class EncodeError(SerdeError, NotAppendedError):
    """A value cannot be encoded, or could not be decoded again.  Names the class and the attribute."""


class BadRecordError(SerdeError):
    """The serde cannot decode a committed record.  Names its offset and its bytes."""


class RecordTooLargeError(NotAppendedError):
    """A record or batch exceeds the configured limit.  It was not appended."""


class OutcomeUnknownError(KraftError):
    """A request was sent and its outcome is unknown.  It took effect once or not at all.

    A command with a `request_id` may be executed again, on any node.  One without must not be repeated blindly.
    """

    def __init__(self, message: str = "", *, request_id: UUID | None = None) -> None:
        super().__init__(message)
        self.request_id = request_id
        """The id with which `Node.execute` may be called again, on any node, so that the command is applied once."""


class CommandFailed(KraftError):
    """Base class of the errors with which a state machine refuses a command.

    The command is in the log, and every replica refuses it alike.  `Node.execute` raises the error for the caller.  A
    retry gets an error of the same class with the same arguments, if they are numbers, texts, bytes or lists of these.
    """


class RequestTooOldError(KraftError):
    """The request was issued so long ago that nobody knows whether it was applied.  It was not applied now."""


class ResultLostError(KraftError):
    """The command was applied, but its result is not known on this node.

    It came in a snapshot, could not be encoded, or has more than 1 MiB or 32768 objects, fields and elements.
    """


class RefusedError(NotAppendedError):
    """A node refused a request for good.  The request had no effect."""


class NodeClosedError(KraftError):
    """The node is stopping or has stopped."""


class ClientClosedError(KraftError):
    """The client was closed before the call or during it."""
