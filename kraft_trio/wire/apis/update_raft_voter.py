"""UpdateRaftVoter: a voter tells the leader its listeners and supported versions (KIP-853 "UpdateVoter")."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.protocol.types import Endpoint, Endpoints, VersionRange
from kraft_trio.wire.apis.endpoints import fields_of_listeners, listeners_of_fields
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class UpdateRaftVoterRequest:
    cluster_id: str | None
    current_leader_epoch: int
    voter_id: int
    voter_directory_id: UUID
    listeners: Endpoints
    kraft_versions: VersionRange


@attrs.frozen
class UpdateRaftVoterResponse:
    """`leader_id` is -1 and the endpoint None if the receiver knows no leader."""

    error: ErrorCode = ErrorCode.none
    leader_id: int = -1
    leader_epoch: int = -1
    leader_endpoint: Endpoint | None = None


_UNKNOWN_LEADER: Final[Fields] = {"leader_id": -1, "leader_epoch": -1, "host": "", "port": 0}


def _fields_of_request(request: UpdateRaftVoterRequest, version: int) -> Fields:
    return {
        "cluster_id": request.cluster_id,
        "current_leader_epoch": request.current_leader_epoch,
        "voter_id": request.voter_id,
        "voter_directory_id": request.voter_directory_id,
        "listeners": fields_of_listeners(request.listeners),
        "k_raft_version_feature": {
            "min_supported_version": request.kraft_versions.minimum,
            "max_supported_version": request.kraft_versions.maximum,
        },
    }


def _request_of_fields(fields: Fields, version: int) -> UpdateRaftVoterRequest:
    feature = fields["k_raft_version_feature"]
    return UpdateRaftVoterRequest(
        fields["cluster_id"],
        fields["current_leader_epoch"],
        fields["voter_id"],
        fields["voter_directory_id"],
        listeners_of_fields(fields["listeners"]),
        VersionRange(feature["min_supported_version"], feature["max_supported_version"]),
    )


def _fields_of_response(response: UpdateRaftVoterResponse, version: int) -> Fields:
    endpoint = response.leader_endpoint
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "current_leader": {
            "leader_id": response.leader_id,
            "leader_epoch": response.leader_epoch,
            "host": "" if endpoint is None else endpoint.host,
            "port": 0 if endpoint is None else endpoint.port,
        },
    }


def _response_of_fields(fields: Fields, version: int) -> UpdateRaftVoterResponse:
    leader = fields.get("current_leader", _UNKNOWN_LEADER)
    is_known = leader["leader_id"] >= 0 and bool(leader["host"])
    return UpdateRaftVoterResponse(
        fields["error_code"],
        leader["leader_id"],
        leader["leader_epoch"],
        Endpoint(leader["host"], leader["port"]) if is_known else None,
    )


_SCHEMA: Final = """\
request
    cluster_id: string?
    current_leader_epoch: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: [Listener]
        name: string
        host: string
        port: uint16
    k_raft_version_feature: KRaftVersionFeature
        min_supported_version: int16
        max_supported_version: int16
response
    throttle_time: int32
    error_code: error_code
    current_leader: CurrentLeader tag 0
        leader_id: int32
        leader_epoch: int32
        host: string
        port: int32
"""

UPDATE_RAFT_VOTER: Final = Api(
    key=82,
    name="UpdateRaftVoter",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, _message: UpdateRaftVoterResponse(error),
)
