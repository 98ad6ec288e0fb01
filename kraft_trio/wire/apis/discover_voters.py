"""DiscoverVoters: nodes tell each other where voters listen (KIP-642 "DiscoverBrokers").

This API is our own, because Kafka never got one.  Its key is far above Kafka's keys.  ApiVersions names it, and Kafka's
nodes skip unknown keys.
"""

from __future__ import annotations

from typing import Final

import attrs

from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.apis.endpoints import fields_of_listeners, listeners_of_fields
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields


@attrs.frozen
class DiscoverVotersRequest:
    cluster_id: str
    advertisements: tuple[Advertisement, ...] = ()
    """What the sender knows.  Its own comes first if it is a voter."""


@attrs.frozen
class DiscoverVotersResponse:
    error: ErrorCode = ErrorCode.none
    advertisements: tuple[Advertisement, ...] = ()
    """What the receiver knows."""


def _fields(advertisements: tuple[Advertisement, ...]) -> list[Fields]:
    return [
        {
            "voter_id": it.key.id,
            "voter_directory_id": it.key.directory_id,
            "boot": it.boot,
            "epoch": it.epoch,
            "endpoints": fields_of_listeners(it.endpoints),
        }
        for it in advertisements
    ]


def _advertisements(fields: list[Fields]) -> tuple[Advertisement, ...]:
    return tuple(
        Advertisement(
            ReplicaKey(it["voter_id"], it["voter_directory_id"]),
            it["boot"],
            it["epoch"],
            listeners_of_fields(it["endpoints"]),
        )
        for it in fields
    )


_SCHEMA: Final = """\
request
    cluster_id: string
    advertisements: [Advertisement]
        voter_id: int32
        voter_directory_id: uuid
        boot: int64
        epoch: int32
        endpoints: [AdvertisedEndpoint]
            name: string
            host: string
            port: uint16
response
    error_code: error_code
    advertisements: [Advertisement]
        voter_id: int32
        voter_directory_id: uuid
        boot: int64
        epoch: int32
        endpoints: [AdvertisedEndpoint]
            name: string
            host: string
            port: uint16
"""

DISCOVER_VOTERS: Final = Api(
    key=10_001,
    name="DiscoverVoters",
    schema=_SCHEMA,
    min_version=0,
    max_version=0,
    flexible_version=0,
    fields_of_request=lambda request, _version: {
        "cluster_id": request.cluster_id,
        "advertisements": _fields(request.advertisements),
    },
    request_of_fields=lambda fields, _version: DiscoverVotersRequest(
        fields["cluster_id"], _advertisements(fields["advertisements"])
    ),
    fields_of_response=lambda response, _version: {
        "error_code": response.error,
        "advertisements": _fields(response.advertisements),
    },
    response_of_fields=lambda fields, _version: DiscoverVotersResponse(
        fields["error_code"], _advertisements(fields["advertisements"])
    ),
    error_response=lambda error, _message: DiscoverVotersResponse(error),
)
