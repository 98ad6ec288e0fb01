"""ControllerRegistration: a controller tells the active one its listeners and features (KIP-919).

Apache Kafka's controllers serve it; nodes only send it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import attrs

from kraft_trio.errors import ProtocolError
from kraft_trio.protocol.types import VersionRange
from kraft_trio.wire.apis.endpoints import ListenerAddress
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Bool, Error, Int16, Int32, Parts, String, Uuid, Via

SECURITY_PROTOCOL_IDS: Final[Mapping[str, int]] = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_SECURITY_PROTOCOLS: Final = {number: name for name, number in SECURITY_PROTOCOL_IDS.items()}


def _security_protocol(number: int) -> str:
    if number not in _SECURITY_PROTOCOLS:
        raise ProtocolError(f"security_protocol: {number}, expected 0 to {max(_SECURITY_PROTOCOLS)}")
    return _SECURITY_PROTOCOLS[number]


@attrs.frozen
class ControllerListener:
    """`security_protocol` is a key of SECURITY_PROTOCOL_IDS."""

    name: String
    endpoint: ListenerAddress
    security_protocol: Annotated[str, Via(Int16, read=_security_protocol, write=SECURITY_PROTOCOL_IDS.__getitem__)]


@attrs.frozen
class ControllerRegistrationRequest:
    """`incarnation_id` is another one for each process.  `features` has the supported levels by name."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: ClassVar[Bool] = False
    listeners: tuple[ControllerListener, ...]
    features: Annotated[
        Mapping[str, VersionRange],
        Via(
            tuple[
                tuple[
                    Annotated[String, "name"],
                    Annotated[VersionRange, Parts(minimum=Int16, maximum=Int16), INLINE],
                ],
                ...,
            ],
            read=dict,
            write="{}.items()",
        ),
    ]


@attrs.frozen
class ControllerRegistrationResponse:
    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    error_message: String | None = None


CONTROLLER_REGISTRATION: Final = Api(
    key=70,
    name="ControllerRegistration",
    request=ControllerRegistrationRequest,
    response=ControllerRegistrationResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=ControllerRegistrationResponse,
)
