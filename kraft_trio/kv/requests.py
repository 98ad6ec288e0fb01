"""What clients ask: etcd's messages, with its names and defaults.

The requests that change the store are commands in the log, so a field may be added at the end of a class only.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, Final

import attrs

JSON_NAME = "json_name"
"""The metadata of a field whose JSON name is not that of the attribute."""
UNSIGNED = "unsigned"
"""The metadata of a number that may have all 64 bits, and no sign."""


class SortOrder(IntEnum):
    """NONE means ASCEND if the target is not the key."""

    NONE = 0
    ASCEND = 1
    DESCEND = 2


class SortTarget(IntEnum):
    """What the answer to a range is sorted by."""

    KEY = 0
    VERSION = 1
    CREATE = 2
    MOD = 3
    VALUE = 4


class CompareResult(IntEnum):
    """How the present value of the target relates to the given one."""

    EQUAL = 0
    GREATER = 1
    LESS = 2
    NOT_EQUAL = 3


class CompareTarget(IntEnum):
    """What a comparison looks at."""

    VERSION = 0
    CREATE = 1
    MOD = 2
    VALUE = 3
    LEASE = 4


class FilterType(IntEnum):
    """The events that a watch leaves out."""

    NOPUT = 0
    NODELETE = 1


class AlarmAction(IntEnum):
    """What to do with an alarm."""

    GET = 0
    ACTIVATE = 1
    DEACTIVATE = 2


class AlarmType(IntEnum):
    """NOSPACE: the store has reached its quota.  There is never an alarm CORRUPT."""

    NONE = 0
    NOSPACE = 1
    CORRUPT = 2


@attrs.frozen
class RangeRequest:
    """The keys of `[key, range_end)`.

    Without `range_end` it is the one key, and a zero byte there means all keys from `key` on.
    """

    key: bytes = b""
    range_end: bytes = b""
    limit: int = 0
    revision: int = 0
    sort_order: SortOrder = SortOrder.NONE
    sort_target: SortTarget = SortTarget.KEY
    serializable: bool = False
    keys_only: bool = False
    count_only: bool = False
    min_mod_revision: int = 0
    max_mod_revision: int = 0
    min_create_revision: int = 0
    max_create_revision: int = 0


@attrs.frozen
class PutRequest:
    """Sets one key.  `ignore_value` and `ignore_lease` keep what the key has."""

    key: bytes = b""
    value: bytes = b""
    lease: int = 0
    prev_kv: bool = False
    ignore_value: bool = False
    ignore_lease: bool = False


@attrs.frozen
class DeleteRangeRequest:
    """Deletes the keys of a range."""

    key: bytes = b""
    range_end: bytes = b""
    prev_kv: bool = False


@attrs.frozen
class Compare:
    """Holds if all keys of the range do; the target says which of the last fields counts."""

    result: CompareResult = CompareResult.EQUAL
    target: CompareTarget = CompareTarget.VERSION
    key: bytes = b""
    version: int = 0
    create_revision: int = 0
    mod_revision: int = 0
    value: bytes = b""
    lease: int = 0
    range_end: bytes = b""


@attrs.frozen
class RequestOp:
    """One operation of a transaction: exactly one field is set."""

    request_range: RangeRequest | None = None
    request_put: PutRequest | None = None
    request_delete_range: DeleteRangeRequest | None = None
    request_txn: TxnRequest | None = None


@attrs.frozen
class TxnRequest:
    """Executes `success` if all comparisons hold, else `failure`."""

    compare: tuple[Compare, ...] = ()
    success: tuple[RequestOp, ...] = ()
    failure: tuple[RequestOp, ...] = ()


@attrs.frozen
class CompactionRequest:
    """Forgets what was overwritten or deleted before `revision`."""

    revision: int = 0
    physical: bool = False


@attrs.frozen
class LeaseGrantRequest:
    """`ttl` is in seconds.  With id 0, the gateway chooses one."""

    ttl: int = attrs.field(default=0, metadata={JSON_NAME: "TTL"})
    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})


@attrs.frozen
class LeaseRevokeRequest:
    """Ends a lease and deletes its keys."""

    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})


@attrs.frozen
class LeaseKeepAliveRequest:
    """Gives a lease its whole time again."""

    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})


@attrs.frozen
class LeaseTimeToLiveRequest:
    """Asks how long a lease lasts, and with `keys` for its keys."""

    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})
    keys: bool = False


@attrs.frozen
class WatchCreateRequest:
    """Watches a range from `start_revision` (inclusive) on; 0 means from now on."""

    key: bytes = b""
    range_end: bytes = b""
    start_revision: int = 0
    progress_notify: bool = False
    filters: tuple[FilterType, ...] = ()
    prev_kv: bool = False
    watch_id: int = 0
    fragment: bool = False


@attrs.frozen
class WatchCancelRequest:
    """Ends one watch of a stream."""

    watch_id: int = 0


@attrs.frozen
class WatchProgressRequest:
    """Asks for a progress notification on a stream."""


@attrs.frozen
class WatchRequest:
    """What a client sends on a watch stream: exactly one field is set."""

    create_request: WatchCreateRequest | None = None
    cancel_request: WatchCancelRequest | None = None
    progress_request: WatchProgressRequest | None = None


@attrs.frozen
class Advance:
    """The leader's clock, in milliseconds since the store's beginning.  Leases end by it."""

    now_ms: int = 0


@attrs.frozen
class AnnounceMember:
    """A node tells where its gateway listens."""

    node_id: int = 0
    client_urls: tuple[str, ...] = ()


@attrs.frozen
class SetQuota:
    """The leader's quota, in bytes; 0 is none."""

    quota_bytes: int = 0


@attrs.frozen
class AlarmRequest:
    """Lists the alarms, or raises or disarms one.  Alarms belong to the whole quorum, whatever the member."""

    action: AlarmAction = AlarmAction.GET
    member_id: int = attrs.field(default=0, metadata={JSON_NAME: "memberID", UNSIGNED: True})
    alarm: AlarmType = AlarmType.NONE


ONE_OF: Final[dict[type[Any], frozenset[str]]] = {
    RequestOp: frozenset({"request_range", "request_put", "request_delete_range", "request_txn"}),
    Compare: frozenset({"version", "create_revision", "mod_revision", "value", "lease"}),
    WatchRequest: frozenset({"create_request", "cancel_request", "progress_request"}),
}
"""The fields of which a message has one at most: protobuf's `oneof`."""

Command = (
    PutRequest
    | DeleteRangeRequest
    | TxnRequest
    | CompactionRequest
    | LeaseGrantRequest
    | LeaseRevokeRequest
    | LeaseKeepAliveRequest
    | Advance
    | AnnounceMember
    | SetQuota
    | AlarmRequest
)
