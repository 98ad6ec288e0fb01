"""The response that AddRaftVoter and RemoveRaftVoter share: an error and a message for a human."""

from __future__ import annotations

from typing import ClassVar

import attrs

from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Error, Int32, String


@attrs.frozen
class VoterChangeResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    error_message: String | None = None
