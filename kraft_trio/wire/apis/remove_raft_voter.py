"""RemoveRaftVoter: an administrator, or a node's new incarnation, removes a voter (KIP-853 "RemoveVoter")."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import attrs

from kraft_trio.wire.apis.voter_change_response import (
    VoterChangeResponse,
    fields_of_voter_change_response,
    voter_change_response_of_fields,
)
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.schema import Fields


@attrs.frozen
class RemoveRaftVoterRequest:
    cluster_id: str | None
    voter_id: int
    voter_directory_id: UUID


@attrs.frozen
class RemoveRaftVoterResponse(VoterChangeResponse):
    """Whether the voter was removed."""


def _fields_of_request(request: RemoveRaftVoterRequest, version: int) -> Fields:
    return {
        "cluster_id": request.cluster_id,
        "voter_id": request.voter_id,
        "voter_directory_id": request.voter_directory_id,
    }


_SCHEMA: Final = """\
request
    cluster_id: string?
    voter_id: int32
    voter_directory_id: uuid
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
"""

REMOVE_RAFT_VOTER: Final = Api(
    key=81,
    name="RemoveRaftVoter",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=lambda fields, _version: RemoveRaftVoterRequest(
        fields["cluster_id"], fields["voter_id"], fields["voter_directory_id"]
    ),
    fields_of_response=fields_of_voter_change_response,
    response_of_fields=lambda fields, _version: voter_change_response_of_fields(RemoveRaftVoterResponse, fields),
    error_response=RemoveRaftVoterResponse,
)
