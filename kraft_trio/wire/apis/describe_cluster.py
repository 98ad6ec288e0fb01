"""DescribeCluster: the nodes of a cluster and its leader (KIP-700; for controllers KIP-919)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, TypeAlias

import attrs

from kraft_trio.wire.apis.metadata import OPERATIONS_NOT_TOLD, Broker, BrokerAddress
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import Bool, Error, Int8, Int32, Parts, Place, String

BROKERS: Final = 1
CONTROLLERS: Final = 2

_Broker: TypeAlias = Annotated[
    Broker,
    Parts(id=Int32, endpoint=BrokerAddress, rack=String | None, is_fenced=Annotated[Bool, Place(since=2)]),
]


@attrs.frozen
class DescribeClusterRequest:
    """`endpoint_type` is BROKERS or CONTROLLERS.  Version 0 has only brokers."""

    include_cluster_authorized_operations: ClassVar[Bool] = False
    endpoint_type: Annotated[Int8, Place(since=1)] = BROKERS
    include_fenced_brokers: ClassVar[Annotated[Bool, Place(since=2)]] = False


@attrs.frozen
class DescribeClusterResponse:
    """`controller_id` is -1 if no leader is known."""

    throttle_time_ms: ClassVar[Int32] = 0
    error: Error = ErrorCode.none
    error_message: String | None = None
    endpoint_type: Annotated[Int8, Place(since=1)] = BROKERS
    cluster_id: String = ""
    controller_id: Int32 = -1
    brokers: tuple[_Broker, ...] = ()
    cluster_authorized_operations: ClassVar[Int32] = OPERATIONS_NOT_TOLD


DESCRIBE_CLUSTER: Final = Api(
    key=60,
    name="DescribeCluster",
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    min_version=0,
    max_version=2,
    flexible_version=0,
    error_response=lambda error, message: DescribeClusterResponse(error=error, error_message=message),
)
