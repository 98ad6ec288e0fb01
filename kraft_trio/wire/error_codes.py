"""Kafka's error codes, as kio's schemas list them."""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

__all__ = ["ERROR_CODES", "TRY_AGAIN", "ErrorCode"]

ERROR_CODES: Final = {int(code): code for code in ErrorCode}
"""Error codes by number.  A number that is missing here, from a newer peer, stands for `unknown_server_error`."""

TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.leader_not_available,
        ErrorCode.broker_not_available,
        ErrorCode.offset_not_available,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
    }
)
"""Answers to Produce, InitProducerId, Fetch and FetchSnapshot after which a client asks again.

It first looks for the leader.  A batch that got one of these answers may still take effect.
"""
