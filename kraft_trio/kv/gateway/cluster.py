"""What the gateway reports about the cluster: its version, health, members and status."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs
import trio

from kraft_trio.kv.errors import AUTH_NOT_ENABLED, KvError
from kraft_trio.kv.gateway.member_ids import member_number
from kraft_trio.kv.gateway.service import KvService
from kraft_trio.kv.requests import JSON_NAME, UNSIGNED
from kraft_trio.kv.responses import HeaderResponse, ResponseHeader

API_VERSION: Final = "3.7.0"
"""The version of etcd whose API this is.  Clients choose the path of the API by it."""
HEALTH_TIMEOUT_S: Final = 1.0


@attrs.frozen
class Version:
    etcdserver: str = ""
    etcdcluster: str = ""
    storage: str = ""


@attrs.frozen
class Health:
    health: str = ""
    reason: str = attrs.field(default="")


@attrs.frozen
class Empty:
    """A request without fields."""


@attrs.frozen
class Member:
    """A voter; without addresses if its gateway has not told them yet."""

    id: int = attrs.field(default=0, metadata={JSON_NAME: "ID", UNSIGNED: True})
    name: str = ""
    peer_urls: tuple[str, ...] = attrs.field(default=(), metadata={JSON_NAME: "peerURLs"})
    client_urls: tuple[str, ...] = attrs.field(default=(), metadata={JSON_NAME: "clientURLs"})


@attrs.frozen
class MemberListRequest:
    linearizable: bool = False


@attrs.frozen
class MemberListResponse:
    header: ResponseHeader | None = None
    members: tuple[Member, ...] = ()


@attrs.frozen
class StatusResponse:
    """`leader` is 0 if this node knows none; `raft_index` is the end of its log."""

    header: ResponseHeader | None = None
    version: str = ""
    db_size: int = attrs.field(default=0, metadata={JSON_NAME: "dbSize"})
    leader: int = attrs.field(default=0, metadata={UNSIGNED: True})
    raft_index: int = attrs.field(default=0, metadata={JSON_NAME: "raftIndex"})
    raft_term: int = attrs.field(default=0, metadata={JSON_NAME: "raftTerm"})
    raft_applied_index: int = attrs.field(default=0, metadata={JSON_NAME: "raftAppliedIndex"})
    errors: tuple[str, ...] = ()
    db_size_in_use: int = attrs.field(default=0, metadata={JSON_NAME: "dbSizeInUse"})
    is_learner: bool = attrs.field(default=False, metadata={JSON_NAME: "isLearner"})
    db_size_quota: int = attrs.field(default=0, metadata={JSON_NAME: "dbSizeQuota"})


class ClusterInfo:
    """Answers for one node."""

    def __init__(self, service: KvService) -> None:
        self._service = service

    def version(self) -> Version:
        return Version(API_VERSION, API_VERSION, API_VERSION)

    @property
    def is_voter(self) -> bool:
        node = self._service.node
        return node.key.id in {voter.key.id for voter in node.view.voters}

    async def health(self, *, is_serializable: bool = False) -> Health:
        """Whether a read succeeds, and there is no alarm."""
        try:
            if not is_serializable:
                with trio.fail_after(HEALTH_TIMEOUT_S):
                    await self._service.barrier()
        except (KvError, trio.TooSlowError):
            has_leader = self._service.node.view.leader_id is not None
            return Health("false", "QGET FAILED" if has_leader else "RAFT NO LEADER")
        if self._service.machine.space.is_full:
            return Health("false", "ALARM NOSPACE")
        return Health("true")

    async def members(self, request: MemberListRequest, _: UUID | None = None) -> MemberListResponse:
        """The voters, with the addresses that they have announced."""
        if request.linearizable:
            await self._service.barrier()
        node, urls = self._service.node, self._service.machine.members
        members = tuple(
            Member(
                member_number(node.cluster_id, voter.key.id),
                str(voter.key.id),
                tuple(f"{name}://{endpoint}" for name, endpoint in voter.endpoints),
                urls.get(voter.key.id, ()),
            )
            for voter in node.view.voters
        )
        return MemberListResponse(self._service.header(revision=0), members)

    async def status(self, _: Empty, __: UUID | None = None) -> StatusResponse:
        node = self._service.node
        leader_id = node.view.leader_id
        machine = self._service.machine
        errors = [f"alarm:{alarm.alarm.name}" for alarm in machine.space.alarms]
        if leader_id is None:
            errors.append("etcdserver: no leader")
        return StatusResponse(
            self._service.header(),
            API_VERSION,
            machine.size_in_bytes,
            0 if leader_id is None else member_number(node.cluster_id, leader_id),
            node.log.end.offset,
            node.view.epoch,
            node.stale.offset,
            tuple(errors),
            machine.size_in_bytes,
            not self.is_voter,
            machine.space.quota_bytes,
        )

    async def nothing(self, _: Empty, __: UUID | None = None) -> HeaderResponse:
        """The status of authentication: there is none."""
        return HeaderResponse(self._service.header())

    async def authenticate(self, _: Empty, __: UUID | None = None) -> HeaderResponse:
        raise KvError(*AUTH_NOT_ENABLED)
