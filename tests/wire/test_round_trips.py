"""Every message in every version: what is encoded is decoded again, less what the version cannot say."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import UnsupportedVersionError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey
from kraft_trio.protocol.voter_set import Voter, VoterSet
from kraft_trio.wire.api import ADD_RAFT_VOTER, APIS, FETCH, FETCH_SNAPSHOT, METADATA, UPDATE_FEATURES, VOTE
from kraft_trio.wire.apis.add_raft_voter import AddRaftVoterRequest
from kraft_trio.wire.apis.api_versions import API_VERSIONS, ApiVersionsResponse, SupportedFeature
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse, QuorumNode
from kraft_trio.wire.apis.fetch import FetchPartitionResponse, FetchResponse
from kraft_trio.wire.apis.fetch_snapshot import FetchSnapshotResponse
from kraft_trio.wire.apis.find_coordinator import FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse
from kraft_trio.wire.apis.metadata import MetadataRequest, MetadataResponse, MetadataTopic, TopicMetadata
from kraft_trio.wire.apis.update_features import UpdateFeaturesRequest
from kraft_trio.wire.apis.vote import VoteRequest, VoteResponse
from kraft_trio.wire.codec import decode_request, decode_response, encode_request, encode_response
from kraft_trio.wire.error_codes import ErrorCode
from tests.support import sizes
from tests.wire.strategies import NO_ID
from tests.wire.values import ALL_VERSIONS, VALUES, cut_down

pytestmark = pytest.mark.rotating(2)


def sent(api, version, kind, value):
    """The value after one trip over the wire."""
    if kind == "request":
        header, decoded = decode_request(encode_request(api, version, 77, "client", value)[4:])
        assert (header.api, header.version, header.correlation_id, header.client_id) == (api, version, 77, "client")
    else:
        correlation_id, decoded = decode_response(api, version, encode_response(api, version, -5, value)[4:])
        assert correlation_id == -5
    return decoded


@pytest.mark.parametrize(
    ("api", "version", "kind"),
    ALL_VERSIONS,
    ids=[f"{api.name}-{kind}-v{version}" for api, version, kind in ALL_VERSIONS],
)
@settings(max_examples=25 if sizes.IS_ALL else 10)
@given(data=st.data())
def test_a_value_comes_back_as_far_as_its_version_goes(api, version, kind, data):
    value = data.draw(VALUES[api.name, kind])
    if api is VOTE and kind == "request" and version < 2:
        value = attrs.evolve(value, pre_vote=False)
    if api is ADD_RAFT_VOTER and kind == "request" and version < 1:
        value = attrs.evolve(value, ack_when_committed=True)
    if api is UPDATE_FEATURES and kind == "request" and version < 1:
        value = attrs.evolve(value, validate_only=False)
    if api is METADATA and kind == "request" and version == 0 and value.topics == ():
        value = MetadataRequest(None, value.allow_auto_topic_creation)
    if api is API_VERSIONS and kind == "response" and version < 4:
        value = attrs.evolve(value, supported_features=tuple(f for f in value.supported_features if f.min_version > 0))
    assert sent(api, version, kind, value) == cut_down(value, api.name, version)


def test_every_api_is_covered():
    assert {name for name, _ in VALUES} == {api.name for api in APIS.values()}


VOTE_REQUEST = VoteRequest("c", 2, "t", 0, ReplicaKey(1, NO_DIRECTORY_ID), 5, NO_DIRECTORY_ID, 100, 4, pre_vote=True)


@pytest.mark.parametrize("version", [0, 1])
def test_a_pre_vote_is_not_sent_in_a_version_without_it(version):
    with pytest.raises(UnsupportedVersionError, match="KIP-996"):
        encode_request(VOTE, version, 1, None, VOTE_REQUEST)


def test_what_an_old_version_cannot_ask_for_is_refused_locally():
    early = AddRaftVoterRequest("c", 1000, 4, NO_DIRECTORY_ID, Endpoints(), ack_when_committed=False)
    with pytest.raises(UnsupportedVersionError, match="KIP-1186"):
        encode_request(ADD_RAFT_VOTER, 0, 1, None, early)
    with pytest.raises(UnsupportedVersionError, match="version 1 or later"):
        encode_request(UPDATE_FEATURES, 0, 1, None, UpdateFeaturesRequest((), validate_only=True))


@pytest.mark.parametrize("version", [-1, 3])
def test_a_version_we_do_not_speak_is_refused_locally(version):
    with pytest.raises(UnsupportedVersionError, match=f"Vote: version {version} is not among 0 to 2"):
        encode_request(VOTE, version, 1, None, VOTE_REQUEST)


def test_a_null_client_id_stays_null():
    header, _ = decode_request(encode_request(VOTE, 2, 1, None, VOTE_REQUEST)[4:])
    assert header.client_id is None


@pytest.mark.parametrize("version", range(4))
def test_a_feature_with_minimum_0_is_left_out_below_version_4(version):
    response = ApiVersionsResponse(
        supported_features=(SupportedFeature("kraft.version", 0, 1), SupportedFeature("other", 1, 2))
    )
    left = (SupportedFeature("other", 1, 2),) if version == 3 else ()
    assert sent(API_VERSIONS, version, "response", response).supported_features == left
    assert sent(API_VERSIONS, 4, "response", response) == response


def test_metadata_version_0_says_all_topics_by_naming_none():
    assert sent(METADATA, 0, "request", MetadataRequest(topics=())).topics is None
    assert sent(METADATA, 1, "request", MetadataRequest(topics=())).topics == ()
    for version in range(METADATA.max_version + 1):
        assert sent(METADATA, version, "request", MetadataRequest(topics=None)).topics is None


@pytest.mark.parametrize("version", range(14))
def test_a_topic_requested_by_id_has_no_name(version):
    by_id = MetadataRequest((MetadataTopic(None, NO_ID),))
    assert sent(METADATA, version, "request", by_id).topics[0].name == (None if version >= 10 else "")
    answer = MetadataResponse(topics=(TopicMetadata(None, error=ErrorCode.unknown_topic_id),))
    assert sent(METADATA, version, "response", answer).topics[0].name == (None if version >= 12 else "")


def test_coordinators_of_several_keys_need_version_4():
    request = FindCoordinatorRequest(("a", "b"))
    refused = FindCoordinatorResponse.refused(request, ErrorCode.coordinator_not_available, "no groups")
    assert sent(FIND_COORDINATOR, 4, "request", request) == request
    assert sent(FIND_COORDINATOR, 4, "response", refused) == refused
    assert [coordinator.key for coordinator in refused.coordinators] == ["a", "b"]
    with pytest.raises(AssertionError):
        encode_request(FIND_COORDINATOR, 3, 1, None, request)
    with pytest.raises(AssertionError):
        encode_response(FIND_COORDINATOR, 3, 1, refused)


def test_partitions_of_one_topic_stay_together_in_order():
    response = FetchResponse(
        partitions=tuple(FetchPartitionResponse(name, NO_ID, index) for name, index in [("a", 1), ("a", 0), ("b", 0)])
    )
    assert sent(FETCH, 12, "response", response) == response
    assert encode_response(FETCH, 12, 1, response).count(b"\x02a") == 1


def test_an_endpoint_without_a_leader_is_not_sent():
    response = VoteResponse(leader_id=-1, leader_endpoint=Endpoint("h", 1), topic="t")
    assert sent(VOTE, 2, "response", response).leader_endpoint is None


def test_a_snapshot_without_leader_has_schema_defaults():
    response = FetchSnapshotResponse(topic="t", snapshot_id=OffsetAndEpoch(9, 2), leader_id=0, leader_epoch=0)
    assert sent(FETCH_SNAPSHOT, 1, "response", response) == response


@pytest.mark.parametrize(("api", "response"), [(VOTE, VoteResponse()), (FETCH_SNAPSHOT, FetchSnapshotResponse())])
def test_an_answer_for_no_topic_is_a_bug(api, response):
    with pytest.raises(AssertionError, match="names the topic"):
        encode_response(api, 1, 1, response)


def test_a_description_is_about_the_requested_partition():
    request = DescribeQuorumRequest("t", 3)
    endpoints = Endpoints({"CONTROLLER": Endpoint("h", 1)})
    described = DescribeQuorumResponse.described(
        request,
        leader_id=1,
        leader_epoch=2,
        high_watermark=3,
        voters=(),
        observers=(),
        nodes=VoterSet([Voter(ReplicaKey(7), endpoints)]),
    )
    assert (described.topic, described.partition) == ("t", 3)
    assert described.nodes == (QuorumNode(7, endpoints),)
    refused = DescribeQuorumResponse.refused(
        request, ErrorCode.not_leader_or_follower, "no", leader_id=2, leader_epoch=4
    )
    assert (refused.topic, refused.partition, refused.partition_error) == ("t", 3, ErrorCode.not_leader_or_follower)
    assert (refused.leader_id, refused.leader_epoch, refused.error) == (2, 4, ErrorCode.none)


@pytest.mark.parametrize("api", APIS.values(), ids=repr)
def test_every_api_can_report_an_error_in_every_version(api):
    response = api.error_response(ErrorCode.unsupported_version, "why")
    for version in range(api.min_version, api.max_version + 1):
        sent(api, version, "response", response)
