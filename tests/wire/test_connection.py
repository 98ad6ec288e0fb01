"""The client's side of a connection, against peers that are of another version, wrong, or gone."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

from kraft_trio.errors import NetworkError, ProtocolError, UnsupportedVersionError
from kraft_trio.wire.api import API_VERSIONS, APIS, DESCRIBE_QUORUM, VOTE, advertised_ranges
from kraft_trio.wire.apis.api_versions import ApiRange, ApiVersionsResponse, FinalizedFeature, SupportedFeature
from kraft_trio.wire.apis.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
from kraft_trio.wire.apis.vote import VoteResponse
from kraft_trio.wire.codec import decode_request, encode_response
from kraft_trio.wire.connection import Connection, negotiate
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.framing import FrameReader
from tests.wire.test_round_trips import VOTE_REQUEST

LIMIT = 100_000


class Peer:
    """The other end: answers ApiVersions with `ranges`, and what follows with `respond`; notes what it was asked."""

    def __init__(self, ranges=None, *, newest_api_versions=4, respond=None):
        self.ranges = advertised_ranges() if ranges is None else ranges
        self.newest_api_versions = newest_api_versions
        self.respond = respond
        self.asked = []

    async def serve(self, stream):
        reader = FrameReader(stream, LIMIT)
        while (frame := await reader.read()) is not None:
            header, request = decode_request(frame)
            self.asked.append((header.api, header.version, header.correlation_id, header.client_id))
            answer = self.api_versions(header) if header.api is API_VERSIONS else self.respond(header, request)
            if answer is None:
                await stream.aclose()
                return
            await stream.send_all(answer)

    def api_versions(self, header):
        response = ApiVersionsResponse(
            apis=self.ranges,
            supported_features=(SupportedFeature("kraft.version", 0, 1),),
            finalized_features=(FinalizedFeature("kraft.version", 1),),
            finalized_features_epoch=3,
        )
        if header.version <= self.newest_api_versions:
            return encode_response(API_VERSIONS, header.version, header.correlation_id, response)
        only_itself = (ApiRange(API_VERSIONS.key, 0, self.newest_api_versions),)
        too_new = ApiVersionsResponse(ErrorCode.unsupported_version, only_itself)
        return encode_response(API_VERSIONS, 0, header.correlation_id, too_new)


@pytest.fixture
async def connected(nursery):
    """Gives a function that starts a peer and connects to it: (our end of the stream, their end of the stream)."""

    async def connect(peer):
        ours, theirs = trio.testing.memory_stream_pair()
        nursery.start_soon(peer.serve, theirs)
        return ours

    return connect


def granted(header, request, *, correlation_id=None):
    response = VoteResponse(vote_granted=True, leader_epoch=5, topic=request.topic)
    return encode_response(VOTE, header.version, correlation_id or header.correlation_id, response)


async def test_versions_are_agreed_on_and_requests_numbered(connected):
    peer = Peer(respond=granted)
    connection = await Connection.negotiated(await connected(peer), "raft-client-1", LIMIT)
    assert (await connection.request(VOTE, VOTE_REQUEST)).vote_granted
    assert (await connection.request(VOTE, VOTE_REQUEST)).vote_granted
    assert peer.asked == [
        (API_VERSIONS, 4, 0, "raft-client-1"),
        (VOTE, 2, 1, "raft-client-1"),
        (VOTE, 2, 2, "raft-client-1"),
    ]
    assert connection.peer_versions[VOTE.key] == ApiRange(VOTE.key, 0, 2)
    assert connection.api_versions.finalized_features == (FinalizedFeature("kraft.version", 1),)
    await connection.aclose()


@pytest.mark.parametrize("newest", [0, 1, 2, 3])
async def test_an_older_peer_is_asked_again_in_a_version_it_knows(connected, newest):
    peer = Peer(newest_api_versions=newest)
    connection = await Connection.negotiated(await connected(peer), "c", LIMIT)
    assert [version for _, version, _, _ in peer.asked] == [4, newest]
    assert connection.peer_versions.keys() == APIS.keys()
    await connection.aclose()


async def test_a_peer_that_names_no_range_is_asked_in_version_0(connected):
    peer = Peer(newest_api_versions=0)
    peer_answer = peer.api_versions

    def without_ranges(header):
        if header.version == 0:
            return peer_answer(header)
        refusal = ApiVersionsResponse(ErrorCode.unsupported_version)
        return encode_response(API_VERSIONS, 0, header.correlation_id, refusal)

    peer.api_versions = without_ranges
    connection = await Connection.negotiated(await connected(peer), "c", LIMIT)
    assert [version for _, version, _, _ in peer.asked] == [4, 0]
    await connection.aclose()


async def test_the_highest_common_version_is_used(connected):
    peer = Peer((ApiRange(API_VERSIONS.key, 0, 4), ApiRange(VOTE.key, 0, 1)), respond=granted)
    connection = await Connection.negotiated(await connected(peer), "c", LIMIT)
    not_a_pre_vote = attrs.evolve(VOTE_REQUEST, pre_vote=False)
    await connection.request(VOTE, not_a_pre_vote)
    assert peer.asked[-1][:2] == (VOTE, 1)
    await connection.aclose()


async def test_a_request_beyond_the_common_versions_is_not_sent(connected):
    peer = Peer((ApiRange(VOTE.key, 0, 1),), respond=granted)
    connection = await Connection.negotiated(await connected(peer), "c", LIMIT)
    with pytest.raises(UnsupportedVersionError, match="pre-vote"):
        await connection.request(VOTE, VOTE_REQUEST)
    with pytest.raises(UnsupportedVersionError, match="DescribeQuorum: the peer does not serve it"):
        await connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest("t"))
    assert len(peer.asked) == 1
    assert connection.usable
    await connection.aclose()


RANGES = [(0, 2, 2), (0, 1, 1), (1, 9, 2), (2, 2, 2), (3, 5, None), (-3, -1, None)]


@pytest.mark.parametrize(("low", "high", "version"), RANGES)
def test_negotiation_takes_the_highest_common_version(low, high, version):
    ranges = {VOTE.key: ApiRange(VOTE.key, low, high)}
    if version is not None:
        assert negotiate(VOTE, ranges) == version
        return
    with pytest.raises(UnsupportedVersionError, match=f"serves versions {low} to {high}, we speak 0 to 2"):
        negotiate(VOTE, ranges)


FAILURES = [
    (lambda header, request: None, NetworkError, "closed the connection instead of answering"),
    (lambda header, request: granted(header, request, correlation_id=77), ProtocolError, "answer to request 77, but 1"),
    (lambda header, request: granted(header, request)[:-1] + b"\1", ProtocolError, "Vote v2 response"),
    (lambda header, request: b"\x7f\0\0\0", ProtocolError, "at most 100000"),
    (lambda header, request: b"\0\0\0\2ab", ProtocolError, "response header: 2 bytes"),
]


@pytest.mark.parametrize(("respond", "error", "reason"), FAILURES)
async def test_an_answer_that_is_none_closes_the_connection(connected, respond, error, reason):
    stream = await connected(Peer(respond=respond))
    connection = await Connection.negotiated(stream, "c", LIMIT)
    with pytest.raises(error, match=reason):
        await connection.request(VOTE, VOTE_REQUEST)
    assert not connection.usable
    with pytest.raises(trio.ClosedResourceError):
        await stream.send_all(b"x")
    with pytest.raises(NetworkError, match="the connection is closed"):
        await connection.request(VOTE, VOTE_REQUEST)


async def test_cancelling_a_sent_request_closes_the_connection(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    peer = Peer()
    reader = FrameReader(theirs, LIMIT)
    connections = []

    async def connect():
        connections.append(await Connection.negotiated(ours, "c", LIMIT))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        header, _ = decode_request(await reader.read())
        await theirs.send_all(peer.api_versions(header))
    (connection,) = connections
    with trio.move_on_after(1) as scope:
        await connection.request(VOTE, VOTE_REQUEST)
    assert scope.cancelled_caught
    assert not connection.usable
    assert await reader.read() is not None, "the request was sent"
    assert await reader.read() is None, "the stream was closed"


async def test_a_request_after_a_failed_send_is_refused(connected):
    """Seed 290125: the request that is lost leaves an answer outstanding, which is not a bug of the next caller."""
    connection = await Connection.negotiated(await connected(Peer(respond=granted)), "c", LIMIT)
    with trio.CancelScope() as scope:
        scope.cancel()
        await connection.begin(VOTE, VOTE_REQUEST)
    assert scope.cancelled_caught
    with pytest.raises(NetworkError, match="the connection is closed"):
        await connection.request(VOTE, VOTE_REQUEST)


async def test_a_negotiation_that_fails_closes_the_stream():
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.aclose()
    with pytest.raises(NetworkError):
        await Connection.negotiated(ours, "c", LIMIT)
    with pytest.raises(trio.ClosedResourceError):
        await ours.send_all(b"x")


async def test_a_peer_that_refuses_api_versions_is_refused(connected):
    peer = Peer()
    peer.api_versions = lambda header: encode_response(
        API_VERSIONS,
        header.version,
        header.correlation_id,
        API_VERSIONS.error_response(ErrorCode.cluster_authorization_failed, None),
    )
    stream = await connected(peer)
    with pytest.raises(ProtocolError, match="cluster_authorization_failed"):
        await Connection.negotiated(stream, "c", LIMIT)
    with pytest.raises(trio.ClosedResourceError):
        await stream.send_all(b"x")


async def test_a_description_crosses_the_connection(connected):
    def describe(header, request):
        response = DescribeQuorumResponse(topic=request.topic, leader_id=4, leader_epoch=7, high_watermark=11)
        return encode_response(DESCRIBE_QUORUM, header.version, header.correlation_id, response)

    connection = await Connection.negotiated(await connected(Peer(respond=describe)), "c", LIMIT)
    response = await connection.request(DESCRIBE_QUORUM, DescribeQuorumRequest("t"))
    assert (response.leader_id, response.leader_epoch, response.high_watermark) == (4, 7, 11)
    await connection.aclose()


def test_the_advertised_ranges_are_what_ordinary_clients_need():
    """librdkafka compresses only where Produce begins at 0, and knows SASL only where SaslHandshake does."""
    ranges = {api.key: (api.min_version, api.max_version) for api in advertised_ranges()}
    assert ranges.pop(0) == (0, 13)
    assert ranges.pop(17) == (0, 1)
    assert ranges == {key: (api.min_version, api.max_version) for key, api in APIS.items() if key not in (0, 17)}
    assert list(ranges) == sorted(ranges)
