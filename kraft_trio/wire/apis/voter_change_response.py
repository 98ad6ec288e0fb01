"""The response that AddRaftVoter and RemoveRaftVoter share: an error and a message for a human."""

from __future__ import annotations

from typing import TypeVar

import attrs

from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class VoterChangeResponse:
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


T = TypeVar("T", bound=VoterChangeResponse)


def fields_of_voter_change_response(response: VoterChangeResponse, version: int) -> Fields:
    return {"throttle_time": 0, "error_code": response.error, "error_message": response.error_message}


def voter_change_response_of_fields(response_type: type[T], fields: Fields) -> T:
    return response_type(fields["error_code"], fields["error_message"])
