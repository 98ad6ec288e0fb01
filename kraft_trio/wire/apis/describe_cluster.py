"""DescribeCluster: the nodes of a cluster and its leader (KIP-700; for controllers KIP-919)."""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.types import Endpoint
from kraft_trio.wire.apis.metadata import OPERATIONS_NOT_TOLD, Broker
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

BROKERS: Final = 1
CONTROLLERS: Final = 2


@attrs.frozen
class DescribeClusterRequest:
    """`endpoint_type` is BROKERS or CONTROLLERS.  Version 0 has only brokers."""

    endpoint_type: int = BROKERS


@attrs.frozen
class DescribeClusterResponse:
    """`controller_id` is -1 if no leader is known."""

    brokers: tuple[Broker, ...] = ()
    cluster_id: str = ""
    controller_id: int = -1
    endpoint_type: int = BROKERS
    error: ErrorCode = ErrorCode.none
    error_message: str | None = None


def _fields_of_request(request: DescribeClusterRequest, _version: int) -> Fields:
    return {
        "include_cluster_authorized_operations": False,
        "endpoint_type": request.endpoint_type,
        "include_fenced_brokers": False,
    }


def _request_of_fields(fields: Fields, _version: int) -> DescribeClusterRequest:
    return DescribeClusterRequest(fields.get("endpoint_type", BROKERS))


def _fields_of_response(response: DescribeClusterResponse, _version: int) -> Fields:
    return {
        "throttle_time": 0,
        "error_code": response.error,
        "error_message": response.error_message,
        "endpoint_type": response.endpoint_type,
        "cluster_id": response.cluster_id,
        "controller_id": response.controller_id,
        "brokers": [
            {
                "broker_id": broker.id,
                "host": broker.endpoint.host,
                "port": broker.endpoint.port,
                "rack": broker.rack,
                "is_fenced": False,
            }
            for broker in response.brokers
        ],
        "cluster_authorized_operations": OPERATIONS_NOT_TOLD,
    }


def _response_of_fields(fields: Fields, _version: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(
        brokers=tuple(
            Broker(broker["broker_id"], Endpoint(broker["host"], broker["port"]), broker["rack"])
            for broker in fields["brokers"]
        ),
        cluster_id=fields["cluster_id"],
        controller_id=fields["controller_id"],
        endpoint_type=fields.get("endpoint_type", BROKERS),
        error=fields["error_code"],
        error_message=fields["error_message"],
    )


_SCHEMA: Final = """\
request
    include_cluster_authorized_operations: bool
    endpoint_type: int8 1+
    include_fenced_brokers: bool 2+
response
    throttle_time: int32
    error_code: error_code
    error_message: string?
    endpoint_type: int8 1+
    cluster_id: string
    controller_id: int32
    brokers: [DescribeClusterBroker]
        broker_id: int32
        host: string
        port: int32
        rack: string?
        is_fenced: bool 2+
    cluster_authorized_operations: int32
"""

DESCRIBE_CLUSTER: Final = Api(
    key=60,
    name="DescribeCluster",
    schema=_SCHEMA,
    min_version=0,
    max_version=2,
    flexible_version=0,
    fields_of_request=_fields_of_request,
    request_of_fields=_request_of_fields,
    fields_of_response=_fields_of_response,
    response_of_fields=_response_of_fields,
    error_response=lambda error, message: DescribeClusterResponse(error=error, error_message=message),
)
