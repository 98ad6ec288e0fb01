"""The errors of the key-value store: gRPC's codes with etcd's messages, which its clients recognize."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kraft_trio.errors import CommandFailed


class Code(IntEnum):
    """The status codes of gRPC that etcd uses."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class KvError(CommandFailed):
    """The store refuses a request, and nothing has changed."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(int(code), message)
        self.code = Code(code)
        self.message = message

    def __str__(self) -> str:
        return self.message


_Status = tuple[Code, str]

EMPTY_KEY: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: key is not provided")
KEY_NOT_FOUND: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: key not found")
VALUE_PROVIDED: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: value is provided")
LEASE_PROVIDED: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: lease is provided")
TOO_MANY_OPERATIONS: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: too many operations in txn request")
DUPLICATE_KEY: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")
SEVERAL_OPERATIONS: Final[_Status] = (Code.INVALID_ARGUMENT, "one operation given as several requests")
REQUEST_TOO_LARGE: Final[_Status] = (Code.INVALID_ARGUMENT, "etcdserver: request is too large")
NO_SPACE: Final[_Status] = (Code.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")
COMPACTED: Final[_Status] = (Code.OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
FUTURE_REVISION: Final[_Status] = (Code.OUT_OF_RANGE, "etcdserver: mvcc: required revision is a future revision")
LEASE_NOT_FOUND: Final[_Status] = (Code.NOT_FOUND, "etcdserver: requested lease not found")
LEASE_EXISTS: Final[_Status] = (Code.FAILED_PRECONDITION, "etcdserver: lease already exists")
LEASE_TTL_TOO_LARGE: Final[_Status] = (Code.OUT_OF_RANGE, "etcdserver: too large lease TTL")
NO_LEADER: Final[_Status] = (Code.UNAVAILABLE, "etcdserver: no leader")
TIMEOUT: Final[_Status] = (Code.UNAVAILABLE, "etcdserver: request timed out")
STOPPED: Final[_Status] = (Code.UNAVAILABLE, "etcdserver: server stopped")
AUTH_NOT_ENABLED: Final[_Status] = (Code.FAILED_PRECONDITION, "etcdserver: authentication is not enabled")
