"""AddRaftVoter: an administrator, or a node that joins by itself, adds a voter (KIP-853 "AddVoter", KIP-1186)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.protocol.types import Endpoints
from kraft_trio.wire.apis.endpoints import fields_of_listeners, listeners_of_fields
from kraft_trio.wire.apis.voter_change_response import (
    VoterChangeResponse,
    fields_of_voter_change_response,
    voter_change_response_of_fields,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.schema import Fields


@attrs.frozen
class AddRaftVoterRequest:
    """`timeout_ms` bounds all of the leader's waits.  Without `ack_when_committed` it answers after its append."""

    cluster_id: str | None
    timeout_ms: int
    voter_id: int
    voter_directory_id: UUID
    listeners: Endpoints
    ack_when_committed: bool = True


@attrs.frozen
class AddRaftVoterResponse(VoterChangeResponse):
    """Whether the voter was added."""


def _fields_of_request(request: AddRaftVoterRequest, version: int) -> Fields:
    if not request.ack_when_committed and version < 1:
        raise UnsupportedVersionError(
            f"AddRaftVoter v{version} is always answered when committed: version 1 is needed for less (KIP-1186)"
        )
    return {
        "cluster_id": request.cluster_id,
        "timeout": request.timeout_ms,
        "voter_id": request.voter_id,
        "voter_directory_id": request.voter_directory_id,
        "listeners": fields_of_listeners(request.listeners),
        "ack_when_committed": request.ack_when_committed,
    }


def _request_of_fields(fields: Fields, version: int) -> AddRaftVoterRequest:
    return AddRaftVoterRequest(
        fields["cluster_id"],
        fields["timeout"],
        fields["voter_id"],
        fields["voter_directory_id"],
        listeners_of_fields(fields["listeners"]),
        fields.get("ack_when_committed", True),
    )


_SCHEMA: Final = """\
request
    cluster_id: string?
    timeout: int32
    voter_id: int32
    voter_directory_id: uuid
    listeners: [Listener]
        name: string
        host: string
        port: uint16
    ack_when_committed: bool 1+
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
"""

ADD_RAFT_VOTER: Final = Api(
    key=80,
    name="AddRaftVoter",
    schema=_SCHEMA,
    min_version=0,
    max_version=1,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=fields_of_voter_change_response,
    response_of_fields=lambda fields, _version: voter_change_response_of_fields(AddRaftVoterResponse, fields),
    error_response=AddRaftVoterResponse,
)
