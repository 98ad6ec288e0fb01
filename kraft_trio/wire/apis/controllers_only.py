"""What Apache Kafka's controllers serve to brokers and tools, and no node does: a witness answers NOT_CONTROLLER.

A broker takes the leader of the quorum for the active controller.  It looks for another one after NOT_CONTROLLER or a
lost connection, but stays with a leader that does not advertise an API.  It also offers to its clients only what that
leader advertises.  So a witness advertises all of this, as of Kafka 4.4, and reads no such request.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, TypeAlias, cast

import attrs

from kraft_trio.wire.apis.controller_registration import CONTROLLER_REGISTRATION
from kraft_trio.wire.apis.unregister_controller import UNREGISTER_CONTROLLER
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Bytes, Error, Int8, Int32, Int64, Nest, Parts, Place, String, Uuid


@attrs.frozen
class Refusal:
    """A response that has nothing but an error, where clients look for it."""

    error: ErrorCode


RefusedApi: TypeAlias = Api[None, Refusal]


def _flat(fields: Mapping[str, Any], path: str = "", nest: Nest | None = None) -> Iterator[tuple[str, Any]]:
    """The fields with unique names.  A dict, or a pair of a place and a dict, is an array with one element."""
    for name, hint in fields.items():
        place, inner = hint if isinstance(hint, tuple) else (Place(), hint)
        if isinstance(inner, dict):
            yield from _flat(inner, f"{path}{name}.", Nest(name, place, is_array=True, inside=nest))
        else:
            placed = Annotated[hint, Place(of="error")] if hint is Error else hint
            yield path + name, placed if nest is None else Annotated[placed, nest]


def _api(key: int, name: str, versions: tuple[int, int], flexible_version: int, **response: Any) -> RefusedApi:
    """`response` has the fields of a response, in order."""
    return Api(
        key=key,
        name=name,
        request=NoneType,
        response=cast(type[Refusal], Annotated[Refusal, Parts(**dict(_flat(response)))]),
        min_version=versions[0],
        max_version=versions[1],
        flexible_version=flexible_version,
        error_response=lambda error, _message: Refusal(error),
    )


_Text: TypeAlias = String | None
_OldText: TypeAlias = Annotated[String, Place(until=5)]
_Since3: TypeAlias = Annotated[String, Place(since=3)]
_Acl: TypeAlias = tuple[String, String, Int8, Int8]
_MatchingAcl: TypeAlias = tuple[Error, _Text, Int8, String, Int8, String, String, Int8, Int8]
_Config: TypeAlias = tuple[
    String,
    _Text,
    Bool,
    Int8,
    Bool,
    tuple[tuple[String, _Text, Int8], ...],
    Annotated[Int8, Place(since=3)],
    Annotated[_Text, Place(since=3)],
]
_Token: TypeAlias = tuple[
    String,
    String,
    _Since3,
    _Since3,
    Int64,
    Int64,
    Int64,
    String,
    Bytes,
    tuple[tuple[String, String], ...],
]
_Partition: TypeAlias = tuple[Int32, Error, Int32, Int32, tuple[Int32, ...], Int8, Int32]
_Election: TypeAlias = tuple[String, tuple[tuple[Int32, Error, _Text], ...]]

_ALL: Final = (
    _api(
        *(20, "DeleteTopics", (1, 6), 4),
        throttle_time_ms=Int32,
        responses={
            "old_name": _OldText,
            "name": Annotated[_Text, Place(since=6)],
            "topic_id": Annotated[Uuid, Place(since=6)],
            "error": Error,
            "error_message": Annotated[_Text, Place(since=5)],
        },
    ),
    _api(
        *(29, "DescribeAcls", (1, 3), 2),
        throttle_time_ms=Int32,
        error=Error,
        error_message=_Text,
        resources=tuple[tuple[Int8, String, Int8, tuple[_Acl, ...]], ...],
    ),
    _api(
        *(30, "CreateAcls", (1, 3), 2),
        throttle_time_ms=Int32,
        results={"error": Error, "error_message": _Text},
    ),
    _api(
        *(31, "DeleteAcls", (1, 3), 2),
        throttle_time_ms=Int32,
        filter_results={"error": Error, "error_message": _Text, "matching_acls": tuple[_MatchingAcl, ...]},
    ),
    _api(
        *(32, "DescribeConfigs", (1, 4), 4),
        throttle_time_ms=Int32,
        results={
            "error": Error,
            "error_message": _Text,
            "resource_type": Int8,
            "resource_name": String,
            "configs": tuple[_Config, ...],
        },
    ),
    _api(
        *(33, "AlterConfigs", (0, 2), 2),
        throttle_time_ms=Int32,
        responses={"error": Error, "error_message": _Text, "resource_type": Int8, "resource_name": String},
    ),
    _api(
        *(37, "CreatePartitions", (0, 3), 2),
        throttle_time_ms=Int32,
        results={"name": String, "error": Error, "error_message": _Text},
    ),
    _api(
        *(38, "CreateDelegationToken", (1, 3), 2),
        error=Error,
        principal_type=String,
        principal_name=String,
        token_requester_principal_type=_Since3,
        token_requester_principal_name=_Since3,
        issue_timestamp_ms=Int64,
        expiry_timestamp_ms=Int64,
        max_timestamp_ms=Int64,
        token_id=String,
        hmac=Bytes,
        throttle_time_ms=Int32,
    ),
    _api(*(39, "RenewDelegationToken", (1, 2), 2), error=Error, expiry_timestamp_ms=Int64, throttle_time_ms=Int32),
    _api(*(40, "ExpireDelegationToken", (1, 2), 2), error=Error, expiry_timestamp_ms=Int64, throttle_time_ms=Int32),
    _api(
        *(41, "DescribeDelegationToken", (1, 3), 2),
        error=Error,
        tokens=tuple[_Token, ...],
        throttle_time_ms=Int32,
    ),
    _api(
        *(43, "ElectLeaders", (0, 2), 2),
        throttle_time_ms=Int32,
        error=Annotated[Error, Place(since=1)],
        results=Annotated[tuple[_Election, ...], Place(since=1)],
        results_of_version_0=(
            Place(until=0),
            {"topic": String, "results": {"partition": Int32, "error": Error, "error_message": _Text}},
        ),
    ),
    _api(
        *(49, "AlterClientQuotas", (0, 1), 1),
        throttle_time_ms=Int32,
        entries={"error": Error, "error_message": _Text, "entity": tuple[tuple[String, _Text], ...]},
    ),
    _api(
        *(50, "DescribeUserScramCredentials", (0, 0), 0),
        throttle_time_ms=Int32,
        error=Error,
        error_message=_Text,
        results=tuple[tuple[String, Error, _Text, tuple[tuple[Int8, Int32], ...]], ...],
    ),
    _api(
        *(51, "AlterUserScramCredentials", (0, 0), 0),
        throttle_time_ms=Int32,
        results={"user": String, "error": Error, "error_message": _Text},
    ),
    _api(
        *(56, "AlterPartition", (2, 3), 0),
        throttle_time_ms=Int32,
        error=Error,
        topics=tuple[tuple[Uuid, tuple[_Partition, ...]], ...],
    ),
    _api(*(58, "Envelope", (0, 0), 0), response_data=Bytes | None, error=Error),
    _api(*(62, "BrokerRegistration", (0, 4), 0), throttle_time_ms=Int32, error=Error, broker_epoch=Int64),
    _api(
        *(63, "BrokerHeartbeat", (0, 2), 0),
        throttle_time_ms=Int32,
        error=Error,
        is_caught_up=Bool,
        is_fenced=Bool,
        should_shut_down=Bool,
    ),
    _api(*(64, "UnregisterBroker", (0, 0), 0), throttle_time_ms=Int32, error=Error, error_message=_Text),
    _api(
        *(67, "AllocateProducerIds", (0, 0), 0),
        throttle_time_ms=Int32,
        error=Error,
        producer_id_start=Int64,
        producer_id_len=Int32,
    ),
    _api(
        *(CONTROLLER_REGISTRATION.key, CONTROLLER_REGISTRATION.name, (0, 0), 0),
        throttle_time_ms=Int32,
        error=Error,
        error_message=_Text,
    ),
    _api(
        *(73, "AssignReplicasToDirs", (0, 0), 0),
        throttle_time_ms=Int32,
        error=Error,
        directories=tuple[tuple[Uuid, tuple[tuple[Uuid, tuple[tuple[Int32, Error], ...]], ...]], ...],
    ),
    _api(
        *(UNREGISTER_CONTROLLER.key, UNREGISTER_CONTROLLER.name, (0, 0), 0),
        throttle_time_ms=Int32,
        error=Error,
        error_message=_Text,
    ),
)

CONTROLLERS_ONLY: Final[Mapping[int, RefusedApi]] = MappingProxyType({api.key: api for api in _ALL})
"""By key.  Their requests are not read."""
