"""The table of operations: their paths, requests and answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs

from kraft_trio.kv import requests, responses
from kraft_trio.kv.gateway import cluster, elections, locks
from kraft_trio.kv.gateway.cluster import ClusterInfo, Empty
from kraft_trio.kv.gateway.elections import Elections
from kraft_trio.kv.gateway.locks import Locks
from kraft_trio.kv.gateway.service import KvService

PREFIXES: Final = ("/v3", "/v3beta", "/v3alpha")
"""The API's paths begin with one of these; older clients use the last two."""

Handler = Callable[..., Awaitable[Any]]


@attrs.frozen
class Operation:
    """One request, one answer.  `path` and `aliases` are without the prefix."""

    path: str
    request: type[Any]
    response: type[Any]
    handler: Handler
    aliases: Sequence[str] = ()
    is_write: bool = False
    """Whether the header Kraft-Request-Id makes it exactly once."""
    waits_for_others: bool = False
    """Whether it may take forever, so that it must end when its client leaves."""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path, *self.aliases)


@attrs.frozen
class Stream:
    """Requests and answers in both directions, or one request and many answers."""

    path: str
    request: type[Any]
    response: type[Any]
    aliases: Sequence[str] = ()


WATCH: Final = Stream("/watch", requests.WatchRequest, responses.WatchResponse)
KEEP_ALIVE: Final = Stream("/lease/keepalive", requests.LeaseKeepAliveRequest, responses.LeaseKeepAliveResponse)
OBSERVE: Final = Stream("/election/observe", elections.LeaderRequest, elections.LeaderResponse)
STREAMS: Final = (WATCH, KEEP_ALIVE, OBSERVE)


def operations_of(service: KvService) -> tuple[Operation, ...]:
    """The operations of one node."""
    locking, electing, info = Locks(service), Elections(service), ClusterInfo(service)
    return (
        Operation("/kv/range", requests.RangeRequest, responses.RangeResponse, service.range),
        Operation("/kv/put", requests.PutRequest, responses.PutResponse, service.put, is_write=True),
        Operation(
            "/kv/deleterange",
            requests.DeleteRangeRequest,
            responses.DeleteRangeResponse,
            service.delete_range,
            is_write=True,
        ),
        Operation("/kv/txn", requests.TxnRequest, responses.TxnResponse, service.txn, is_write=True),
        Operation(
            "/kv/compaction", requests.CompactionRequest, responses.CompactionResponse, service.compact, is_write=True
        ),
        Operation(
            "/lease/grant", requests.LeaseGrantRequest, responses.LeaseGrantResponse, service.lease_grant, is_write=True
        ),
        Operation(
            "/lease/revoke",
            requests.LeaseRevokeRequest,
            responses.LeaseRevokeResponse,
            service.lease_revoke,
            ["/kv/lease/revoke"],
            is_write=True,
        ),
        Operation(
            "/lease/timetolive",
            requests.LeaseTimeToLiveRequest,
            responses.LeaseTimeToLiveResponse,
            service.lease_time_to_live,
            ["/kv/lease/timetolive"],
        ),
        Operation("/lease/leases", Empty, responses.LeaseLeasesResponse, service.lease_leases, ["/kv/lease/leases"]),
        Operation("/cluster/member/list", cluster.MemberListRequest, cluster.MemberListResponse, info.members),
        Operation("/maintenance/status", Empty, cluster.StatusResponse, info.status),
        Operation("/maintenance/alarm", requests.AlarmRequest, responses.AlarmResponse, service.alarm, is_write=True),
        Operation("/auth/status", Empty, responses.HeaderResponse, info.nothing),
        Operation("/auth/authenticate", Empty, responses.HeaderResponse, info.authenticate),
        Operation("/lock/lock", locks.LockRequest, locks.LockResponse, locking.lock, waits_for_others=True),
        Operation("/lock/unlock", locks.UnlockRequest, responses.HeaderResponse, locking.unlock),
        Operation(
            "/election/campaign",
            elections.CampaignRequest,
            elections.CampaignResponse,
            electing.campaign,
            waits_for_others=True,
        ),
        Operation("/election/proclaim", elections.ProclaimRequest, responses.HeaderResponse, electing.proclaim),
        Operation("/election/resign", elections.ResignRequest, responses.HeaderResponse, electing.resign),
        Operation("/election/leader", elections.LeaderRequest, elections.LeaderResponse, electing.leader),
    )
