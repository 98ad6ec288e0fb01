"""The errors a user of the library can meet.  Each message names the thing, its value and what was expected."""

from __future__ import annotations

from typing import ClassVar


class KraftError(Exception):
    """Base of every error that kraft_trio raises on purpose."""

    exit_code: ClassVar[int] = 1
    """That of a `kraft` command that ends with it."""


class ConfigError(KraftError):
    """A configuration key or command-line value that cannot be used."""


class StorageError(KraftError):
    """The directory or one of its files cannot be used as it is; nothing was changed."""


class CorruptLogError(StorageError):
    """Damage that a torn tail does not explain: names file, position and reason.  The node must not vote."""


class CorruptSnapshotError(StorageError):
    """A snapshot that is damaged, cut or not one at all: names file, position and what was expected."""


class StorageFailure(KraftError):
    """A write or fsync failed.  The storage is poisoned: everything after it fails the same way."""

    exit_code = 3


class DiskFullError(StorageFailure):
    """There is no room for a write: names the file, how many bytes, and what to do.  What was there before is whole."""

    exit_code = 4


class DamagedLogError(StorageFailure, CorruptLogError):
    """A read found damage in a log that is open: the node hands over and ends, and the next start checks everything."""


class AlreadyLockedError(StorageError):
    """Another process holds the directory's lock."""


class ProtocolError(KraftError):
    """A peer or client sent bytes that are not what the protocol says."""


class NetworkError(KraftError):
    """A request got no usable answer: refused, cut, timed out.  Says nothing about whether it took effect."""


class UnsupportedVersionError(KraftError):
    """The peer has no version of the API that can carry the request."""


class ApiNotServedError(UnsupportedVersionError):
    """The peer has no version of the API at all: it is older than the API, or listens there for others."""


class NotLeaderError(KraftError):
    """The request needs the leader, and this node is not, or no longer, the leader."""


class OffsetOutOfRangeError(KraftError, ValueError):
    """The offset asked for is not in the log: before its start, or beyond its end."""


class RecordTooLargeError(KraftError):
    """A record or batch is above the configured limit; it was not appended."""


class OutcomeUnknownError(KraftError):
    """What was asked for was sent, and whether it was done cannot be learned: it may have been, once at most."""


class NodeClosedError(KraftError):
    """The node is stopping or has stopped."""
