"""Nodes among Apache Kafka's controllers: who is one, who may vote, and how a witness registers (KIP-919)."""

from __future__ import annotations

import struct
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

import pytest
import structlog.testing
import trio

from kraft_trio import NodeConfig
from kraft_trio.actors.kafka.controller_registrar import ControllerRegistrar, Registration
from kraft_trio.actors.peers.kafka_controllers import MAX_KNOWN, KafkaControllers
from kraft_trio.environment import Environment
from kraft_trio.errors import ConfigError
from kraft_trio.messages import Stamp
from kraft_trio.protocol.roles import Follower
from kraft_trio.protocol.types import Endpoint, Endpoints, VersionRange
from kraft_trio.running import open_node
from kraft_trio.simulation import Cluster
from kraft_trio.simulation.disk.simulated_disk import SimulatedDisk
from kraft_trio.simulation.setup import CLUSTER_ID, LISTENER
from kraft_trio.storage.directory.directory import format_directory
from kraft_trio.wire.api import API_VERSIONS, APIS, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiRange, ApiVersionsRequest, ApiVersionsResponse, SupportedFeature
from kraft_trio.wire.apis.controller_registration import (
    CONTROLLER_REGISTRATION,
    ControllerListener,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from kraft_trio.wire.codec import encode_response
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from kraft_trio.wire.schema_reader import REQUEST_ELEMENTS
from tests.support.epoch_context import lone_epoch
from tests.support.on_cluster import on_cluster
from tests.support.voter_change_requests import ask, listening

KAFKA = Endpoint("kafka", 9093)
REGISTERS = ApiRange(CONTROLLER_REGISTRATION.key, 0, 0)
OURS = ApiVersionsResponse(apis=advertised_ranges())
OF_KAFKA = tuple(api for api in OURS.apis if api.key < 10_000)


def versions_with(*features: str) -> ApiVersionsResponse:
    """What a controller with these features answers to ApiVersions."""
    return ApiVersionsResponse(
        apis=(*OF_KAFKA, REGISTERS),
        supported_features=tuple(SupportedFeature(name, 1, 7) for name in features),
    )


def controller(
    asked: list[ControllerRegistrationRequest], errors: Sequence[ErrorCode] = ()
) -> Callable[[trio.abc.Stream], Awaitable[None]]:
    """For `listening`: it notes registrations, and answers them with these errors, then with none."""
    left = list(errors)

    async def serve(stream: trio.abc.Stream) -> None:
        reader = FrameReader(stream, 2**20)
        while (frame := await reader.read()) is not None:
            key, version, correlation_id, length = struct.unpack_from(">hhih", frame)
            position = 10 + length + 1
            if key == API_VERSIONS.key:
                answer = encode_response(API_VERSIONS, version, correlation_id, versions_with("metadata.version"))
            elif key == CONTROLLER_REGISTRATION.key:
                asked.append(CONTROLLER_REGISTRATION.decode_request(version, frame, position, REQUEST_ELEMENTS))
                error = left.pop(0) if left else ErrorCode.none
                response = ControllerRegistrationResponse(error, None)
                answer = encode_response(CONTROLLER_REGISTRATION, version, correlation_id, response)
            else:
                error = ErrorCode.unknown_server_error
                answer = encode_response(APIS[key], version, correlation_id, APIS[key].error_response(error, None))
            await stream.send_all(answer)

    return serve


# Who is a controller


def test_a_peer_that_takes_registrations_is_a_controller() -> None:
    controllers = KafkaControllers("__cluster_metadata")
    controllers.negotiated(KAFKA, versions_with())
    assert controllers.versions_of(KAFKA) == versions_with()
    assert controllers.versions_of(Endpoint("other", 9093)) is None
    assert controllers.versions_of(None) is None
    controllers.negotiated(KAFKA, OURS)
    assert controllers.versions_of(KAFKA) is None


def test_a_witness_is_none() -> None:
    """It advertises what controllers do."""
    controllers = KafkaControllers("__cluster_metadata")
    controllers.negotiated(KAFKA, ApiVersionsResponse(apis=(*OURS.apis, REGISTERS)))
    assert controllers.versions_of(KAFKA) is None


def test_kafkas_test_server_is_none() -> None:
    """It advertises the same APIs, but replicates another topic."""
    controllers = KafkaControllers("__raft_performance_test")
    controllers.negotiated(KAFKA, versions_with())
    assert controllers.versions_of(KAFKA) is None


def test_not_all_are_remembered_for_ever() -> None:
    controllers = KafkaControllers("__cluster_metadata")
    for port in range(1, MAX_KNOWN + 2):
        controllers.negotiated(Endpoint("kafka", port), versions_with())
    assert controllers.versions_of(Endpoint("kafka", 1)) is None
    assert controllers.versions_of(Endpoint("kafka", 2)) is not None


# Who may vote


async def run_static_voter(cluster: Cluster, **settings: object) -> str | None:
    """Run node 3 for a minute, among static voters of which 1 is a controller of Kafka.  Returns why it has ended."""
    config = NodeConfig(
        node_id=3,
        listeners=f"{LISTENER}://stray:9093",
        metadata_log_dir="/data",
        quorum_voters=f"1@{KAFKA},3@stray:9093,4@nowhere:9093",
        metrics_interval_ms=0,
        **settings,  # type: ignore[arg-type]
    )
    disk = SimulatedDisk(cluster.random("stray"))
    format_directory(
        disk,
        config.metadata_log_dir,
        cluster_id=CLUSTER_ID,
        node_id=3,
        directory_id=UUID(int=12345, version=4),
        topic_name=config.topic_name,
        voters=None,
        kraft_version=0,
        timestamp_ms=0,
    )
    network, source = cluster.network.seen_from("stray"), cluster.random("stray")
    async with listening(cluster, KAFKA, controller([])):
        try:
            async with open_node(config, environment=Environment(network=network, disk=disk, random=source)):
                await trio.sleep(60)
        except ConfigError as error:
            return str(error)
    return None


@on_cluster(voters=1)
async def test_a_voter_that_is_no_witness_ends(cluster: Cluster) -> None:
    assert await run_static_voter(cluster) == (
        "kraft.witness=false: node 3 is a voter among controllers of Apache Kafka (nodes 1), none of which is active "
        "while it leads; expected kraft.witness=true"
    )


@on_cluster(voters=1)
async def test_a_witness_may_vote(cluster: Cluster) -> None:
    assert await run_static_voter(cluster, witness=True) is None


@pytest.mark.parametrize("is_witness", [False, True])
def test_an_observer_that_is_no_witness_cannot_be_added(is_witness: bool) -> None:
    """A leader adds no voter that does not support the feature kraft.version."""

    @on_cluster(observers=1, witnesses=(4,) if is_witness else ())
    async def test(cluster: Cluster) -> None:
        await cluster.wait_for_leader()
        await cluster.wait_until_alike()
        observer = cluster.nodes[4]
        with structlog.testing.capture_logs() as events:
            for endpoint, answer in ((cluster.endpoint_of(1), versions_with()), (KAFKA, OURS)):
                observer.tree.controllers.negotiated(endpoint, answer)
            versions = await ask(cluster, observer, API_VERSIONS, ApiVersionsRequest())
        warnings = [event for event in events if "kraft.witness=true" in event["event"]]
        assert [event["nodes"] for event in warnings] == ["1"] * (not is_witness)
        assert [feature.name for feature in versions.supported_features] == ["kraft.version"] * is_witness

    test()


# Registration


async def register(cluster: Cluster, registration: Registration, *features: str, seconds: float = 20) -> bool | None:
    """Follow a controller with these features for a while.  Returns whether the node counts as registered then."""
    lone = lone_epoch(cluster, 3, Stamp(1, 1))
    lone.context.controllers.negotiated(KAFKA, versions_with(*features))
    registrar = ControllerRegistrar(lone.context, Follower(1, 1, Endpoints({LISTENER: KAFKA})), registration)
    with trio.move_on_after(seconds):
        await registrar.run()
    await lone.context.log.close()
    return lone.context.controllers.has_registered


ANY = VersionRange(0, 32767)


@on_cluster(started=())
async def test_it_registers_until_it_is_acknowledged(cluster: Cluster) -> None:
    asked: list[ControllerRegistrationRequest] = []
    registration = Registration(UUID(int=8))
    async with listening(cluster, KAFKA, controller(asked, [ErrorCode.not_controller, ErrorCode.unsupported_version])):
        await register(cluster, registration, "metadata.version")
    features = {"metadata.version": ANY, "kraft.version": VersionRange(0, 1)}
    own = ControllerListener(LISTENER, cluster.endpoint_of(3), "PLAINTEXT")
    assert asked == [ControllerRegistrationRequest(3, UUID(int=8), (own,), features)] * 3
    assert registration.features == features


@on_cluster(started=())
async def test_metric_says_whether_a_controller_has_registered_it(cluster: Cluster) -> None:
    """Further features that are not registered yet do not count."""
    registration, refusals = Registration(UUID(int=8)), [ErrorCode.unsupported_version] * 2
    async with listening(cluster, KAFKA, controller([], refusals)):
        assert await register(cluster, registration, "metadata.version", seconds=3) is False
        assert await register(cluster, registration, "metadata.version") is True
    assert await register(cluster, registration, "metadata.version", "new.version") is True


@on_cluster(started=())
async def test_it_registers_again_only_for_further_features(cluster: Cluster) -> None:
    asked: list[ControllerRegistrationRequest] = []
    registration = Registration(UUID(int=8))
    async with listening(cluster, KAFKA, controller(asked)):
        await register(cluster, registration, "metadata.version", "old.version")
        assert len(asked) == 1
        await register(cluster, registration, "metadata.version")
        assert len(asked) == 1
        await register(cluster, registration, "metadata.version", "new.version")
    assert set(asked[-1].features) == {"metadata.version", "old.version", "new.version", "kraft.version"}


@on_cluster(started=())
async def test_it_registers_again_when_the_leader_turns_out_to_be_newer(cluster: Cluster) -> None:
    """What was known when it began to follow is of the leader's process before its upgrade."""
    asked: list[ControllerRegistrationRequest] = []
    lone = lone_epoch(cluster, 3, Stamp(1, 1))
    controllers = lone.context.controllers
    registrar = ControllerRegistrar(
        lone.context, Follower(1, 1, Endpoints({LISTENER: KAFKA})), Registration(UUID(int=8))
    )
    async with listening(cluster, KAFKA, controller(asked)), trio.open_nursery() as nursery:
        controllers.negotiated(KAFKA, versions_with("old.version"))
        nursery.start_soon(registrar.run)
        await trio.sleep(20)
        assert [set(request.features) for request in asked] == [{"old.version", "kraft.version"}]
        controllers.negotiated(KAFKA, versions_with("old.version", "new.version"))
        await trio.sleep(20)
        nursery.cancel_scope.cancel()
    assert [set(request.features) for request in asked[1:]] == [{"old.version", "new.version", "kraft.version"}]
    await lone.context.log.close()


@on_cluster(started=())
async def test_a_leader_of_ours_is_not_asked(cluster: Cluster) -> None:
    asked: list[ControllerRegistrationRequest] = []
    lone = lone_epoch(cluster, 3, Stamp(1, 1))
    lone.context.controllers.negotiated(KAFKA, OURS)
    registrar = ControllerRegistrar(
        lone.context, Follower(1, 1, Endpoints({LISTENER: KAFKA})), Registration(UUID(int=8))
    )
    async with listening(cluster, KAFKA, controller(asked)):
        with trio.move_on_after(20) as scope:
            await registrar.run()
    assert scope.cancelled_caught
    assert not asked
    assert lone.context.kafkas_controllers() == []
    await lone.context.log.close()
