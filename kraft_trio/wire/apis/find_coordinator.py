"""FindCoordinator: the broker that coordinates a consumer group or a transaction (KIP-699: several keys at once)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias, TypeVar

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Error, Int8, Int32, Parts, Place, String, Via

T = TypeVar("T")

GROUP: Final = 0
TRANSACTION: Final = 1

MAX_KEYS_WITH_MESSAGE: Final = 10
"""The most keys that get a message each: a message is many times longer than a key."""


def _only(values: tuple[T, ...]) -> T:
    assert len(values) == 1, f"versions below 4 are about one key, not {len(values)}"
    return values[0]


@attrs.frozen
class FindCoordinatorRequest:
    """`key_type` is GROUP, TRANSACTION or a newer type.  Versions below 4 carry exactly one key."""

    keys: Annotated[tuple[String, ...], "coordinator_keys", Place(since=4, after="key_type")]
    key: ClassVar[Annotated[tuple[str, ...], Via(String, read="({},)", write=_only), Place(until=3, of="keys")]]
    key_type: Annotated[Int8, Place(since=1)] = GROUP


@attrs.frozen
class Coordinator:
    """The answer for one key, which versions below 4 do not name.  `endpoint` is None if there is an error."""

    error_first: ClassVar[Annotated[Error, Place(until=3, of="error")]]
    message_first: ClassVar[Annotated[String | None, "error_message", Place(since=1, until=3, of="error_message")]]
    key: Annotated[String, Place(since=4)] = ""
    id: Int32 = -1
    endpoint: Annotated[Endpoint | None, Parts(none=("", -1), host=String, port=Int32), INLINE] = None
    error: Annotated[Error, Place(since=4)] = ErrorCode.none
    error_message: Annotated[String | None, Place(since=4)] = None


_OnlyCoordinator: TypeAlias = Annotated[
    tuple[Coordinator, ...], Via(Annotated[Coordinator, INLINE], read="({},)", write=_only)
]


@attrs.frozen
class FindCoordinatorResponse:
    throttle_time_ms: ClassVar[Annotated[Int32, Place(since=1)]] = 0
    coordinators: Annotated[tuple[Coordinator, ...], Place(since=4)] = ()
    coordinator: ClassVar[Annotated[_OnlyCoordinator, Place(until=3, of="coordinators")]]

    @classmethod
    def refused(
        cls, request: FindCoordinatorRequest, error: ErrorCode, message: str | None = None
    ) -> FindCoordinatorResponse:
        """The same error for each key of the request.  The message is included only if there are few keys."""
        keys = dict.fromkeys(request.keys)
        repeated = message if len(keys) <= MAX_KEYS_WITH_MESSAGE else None
        return cls(tuple(Coordinator(key=key, error=error, error_message=repeated) for key in keys))


FIND_COORDINATOR: Final = Api(
    key=10,
    name="FindCoordinator",
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    min_version=0,
    max_version=6,
    flexible_version=3,
    error_response=lambda error, message: FindCoordinatorResponse((Coordinator(error=error, error_message=message),)),
)
