"""What the store answers: etcd's messages.

The store fills the revision into a header, and the gateway the rest.  `of` tells the results of commands apart when
they are read back from the table of requests; it is no field of etcd's.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import attrs

from kraft_trio.kv.requests import JSON_NAME, UNSIGNED, AlarmType


@attrs.frozen
class ResponseHeader:
    cluster_id: int = attrs.field(default=0, metadata={UNSIGNED: True})
    member_id: int = attrs.field(default=0, metadata={UNSIGNED: True})
    revision: int = 0
    raft_term: int = attrs.field(default=0, metadata={UNSIGNED: True})


@attrs.frozen
class HeaderResponse:
    """An answer without content."""

    header: ResponseHeader | None = None


@attrs.frozen
class KeyValue:
    """One version of a key; version 0 means that this revision has deleted it."""

    key: bytes = b""
    create_revision: int = 0
    mod_revision: int = 0
    version: int = 0
    value: bytes = b""
    lease: int = 0


class EventType(IntEnum):
    PUT = 0
    DELETE = 1


@attrs.frozen
class Event:
    type: EventType = EventType.PUT
    kv: KeyValue | None = None
    prev_kv: KeyValue | None = None


@attrs.frozen
class RangeResponse:
    """`count` is that of all keys in the range, before limits and filters."""

    header: ResponseHeader | None = None
    kvs: tuple[KeyValue, ...] = ()
    more: bool = False
    count: int = 0


@attrs.frozen
class PutResponse:
    header: ResponseHeader | None = None
    prev_kv: KeyValue | None = None
    of: Literal["put"] = "put"


@attrs.frozen
class DeleteRangeResponse:
    header: ResponseHeader | None = None
    deleted: int = 0
    prev_kvs: tuple[KeyValue, ...] = ()
    of: Literal["delete"] = "delete"


@attrs.frozen
class ResponseOp:
    response_range: RangeResponse | None = None
    response_put: PutResponse | None = None
    response_delete_range: DeleteRangeResponse | None = None
    response_txn: TxnResponse | None = None


@attrs.frozen
class TxnResponse:
    header: ResponseHeader | None = None
    succeeded: bool = False
    responses: tuple[ResponseOp, ...] = ()
    of: Literal["txn"] = "txn"


@attrs.frozen
class CompactionResponse:
    header: ResponseHeader | None = None
    of: Literal["compaction"] = "compaction"


@attrs.frozen
class LeaseGrantResponse:
    header: ResponseHeader | None = None
    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})
    ttl: int = attrs.field(default=0, metadata={JSON_NAME: "TTL"})
    of: Literal["grant"] = "grant"


@attrs.frozen
class LeaseRevokeResponse:
    header: ResponseHeader | None = None
    of: Literal["revoke"] = "revoke"


@attrs.frozen
class LeaseKeepAliveResponse:
    """A lease that is gone has no TTL here."""

    header: ResponseHeader | None = None
    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})
    ttl: int = attrs.field(default=0, metadata={JSON_NAME: "TTL"})
    of: Literal["keepalive"] = "keepalive"


@attrs.frozen
class AlarmMember:
    """An alarm; member 0 means all of them."""

    member_id: int = attrs.field(default=0, metadata={JSON_NAME: "memberID", UNSIGNED: True})
    alarm: AlarmType = AlarmType.NONE


@attrs.frozen
class AlarmResponse:
    header: ResponseHeader | None = None
    alarms: tuple[AlarmMember, ...] = ()
    of: Literal["alarm"] = "alarm"


@attrs.frozen
class Done:
    """The result of a command of the nodes themselves."""

    of: Literal["done"] = "done"


Result = (
    PutResponse
    | DeleteRangeResponse
    | TxnResponse
    | CompactionResponse
    | LeaseGrantResponse
    | LeaseRevokeResponse
    | LeaseKeepAliveResponse
    | AlarmResponse
    | Done
)


@attrs.frozen
class LeaseTimeToLiveResponse:
    """`ttl` is -1 if there is no such lease."""

    header: ResponseHeader | None = None
    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})
    ttl: int = attrs.field(default=0, metadata={JSON_NAME: "TTL"})
    granted_ttl: int = attrs.field(default=0, metadata={JSON_NAME: "grantedTTL"})
    keys: tuple[bytes, ...] = ()


@attrs.frozen
class LeaseStatus:
    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID"})


@attrs.frozen
class LeaseLeasesResponse:
    header: ResponseHeader | None = None
    leases: tuple[LeaseStatus, ...] = ()


@attrs.frozen
class WatchResponse:
    header: ResponseHeader | None = None
    watch_id: int = 0
    created: bool = False
    canceled: bool = False
    compact_revision: int = 0
    cancel_reason: str = ""
    fragment: bool = False
    events: tuple[Event, ...] = ()
