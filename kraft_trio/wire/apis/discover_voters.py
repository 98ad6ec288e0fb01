"""DiscoverVoters: nodes tell each other where voters listen (KIP-642 "DiscoverBrokers").

This API is our own, because Kafka never got one.  Its key is far above Kafka's keys.  ApiVersions names it, and Kafka's
nodes skip unknown keys.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import attrs

from kraft_trio.protocol.gossip import Advertisement
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.wire.apis.endpoints import Listeners
from kraft_trio.wire.descriptor import Api
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.fields import INLINE, Error, Int32, Int64, Parts, String, Uuid

_Advertisement: TypeAlias = Annotated[
    Advertisement,
    Parts(
        key=Annotated[ReplicaKey, Parts(id=Int32, directory_id=Uuid), INLINE],
        boot=Int64,
        epoch=Int32,
        endpoints=Listeners,
    ),
]


@attrs.frozen
class DiscoverVotersRequest:
    cluster_id: String
    advertisements: tuple[_Advertisement, ...] = ()
    """What the sender knows.  Its own comes first if it is a voter."""


@attrs.frozen
class DiscoverVotersResponse:
    error: Error = ErrorCode.none
    advertisements: tuple[_Advertisement, ...] = ()
    """What the receiver knows."""


DISCOVER_VOTERS: Final = Api(
    key=10_001,
    name="DiscoverVoters",
    request=DiscoverVotersRequest,
    response=DiscoverVotersResponse,
    min_version=0,
    max_version=0,
    flexible_version=0,
    error_response=lambda error, _message: DiscoverVotersResponse(error),
)
