"""IncrementalAlterConfigs: nothing can be configured over the wire, so there is nothing to delete either."""

from __future__ import annotations

import pytest

from kraft_trio.simulation import Cluster
from kraft_trio.wire.api import INCREMENTAL_ALTER_CONFIGS
from kraft_trio.wire.apis.incremental_alter_configs import (
    BROKER,
    DELETE,
    TOPIC,
    AlteredConfig,
    AlteredResource,
    IncrementalAlterConfigsRequest,
    ResourceResult,
)
from kraft_trio.wire.error_codes import ErrorCode
from tests.support.on_cluster import on_cluster
from tests.support.raw_client import TOPIC as OURS
from tests.support.voter_change_requests import ask

THROTTLE = AlteredConfig("leader.replication.throttled.rate", DELETE)
SET = 0


async def altered(cluster: Cluster, *resources: AlteredResource) -> tuple[ResourceResult, ...]:
    """Ask a node that does not lead: any broker can be asked for itself."""
    leader = await cluster.wait_for_leader()
    request = IncrementalAlterConfigsRequest(resources)
    return (await ask(cluster, cluster.others(leader)[0], INCREMENTAL_ALTER_CONFIGS, request)).results


@on_cluster()
async def test_throttles_that_were_never_set_are_cleared(cluster: Cluster) -> None:
    resources = [AlteredResource(BROKER, "1", (THROTTLE,)), AlteredResource(TOPIC, OURS, (THROTTLE,))]
    assert await altered(cluster, *resources) == (ResourceResult(BROKER, "1"), ResourceResult(TOPIC, OURS))


@pytest.mark.parametrize(
    ("resource", "error"),
    [
        (AlteredResource(BROKER, "1", (THROTTLE, AlteredConfig("log.retention.ms", SET, "1"))), "invalid_config"),
        (AlteredResource(TOPIC, OURS, (AlteredConfig("retention.ms", SET, "1"),)), "invalid_config"),
        (AlteredResource(TOPIC, "other", (THROTTLE,)), "unknown_topic_or_partition"),
        (AlteredResource(16, "metrics", (THROTTLE,)), "invalid_request"),
    ],
)
@on_cluster()
async def test_nothing_is_configured_over_the_wire(cluster: Cluster, resource: AlteredResource, error: str) -> None:
    [result] = await altered(cluster, resource)
    assert result.error == ErrorCode[error]
