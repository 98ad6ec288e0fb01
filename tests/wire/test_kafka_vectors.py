"""Frames that Apache Kafka's own classes wrote, byte for byte, and its header versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kraft_trio.protocol.types import NO_DIRECTORY_ID, Endpoint, Endpoints, ReplicaKey, directory_id_from_text
from kraft_trio.wire.api import APIS, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, VOTE
from kraft_trio.wire.apis.begin_quorum_epoch import BeginQuorumEpochRequest
from kraft_trio.wire.apis.end_quorum_epoch import EndQuorumEpochRequest
from kraft_trio.wire.apis.fetch import UNSUPPORTED_HIGH_WATERMARK, FetchPartition, FetchRequest
from kraft_trio.wire.apis.vote import VoteRequest
from kraft_trio.wire.codec import decode_request, encode_request

LINES = (Path(__file__).parents[1] / "data" / "wire-vectors.txt").read_text().splitlines()
APIS_BY_VECTOR_NAME = {"Vote": VOTE, "Fetch": FETCH, "Begin": BEGIN_QUORUM_EPOCH, "End": END_QUORUM_EPOCH}

FRAMES = {
    (APIS_BY_VECTOR_NAME[words[0]], int(words[1])): bytes.fromhex(words[5])
    for words in map(str.split, LINES)
    if words[0] in APIS_BY_VECTOR_NAME
}
HEADER_LINES = [line.split() for line in LINES if "(" in line and not line.startswith("#")]

CANDIDATE = ReplicaKey(1, directory_id_from_text("b8tRS7h4TJ2Vt43Dp85v2A"))
VOTER_DIRECTORY_ID = directory_id_from_text("Nkij_D9XRiYKNb41SiJo7Q")
TOPIC = "__cluster_metadata"


def vote(candidate, voter_id, voter_directory_id, pre_vote):
    return VoteRequest("clusterX", voter_id, TOPIC, 0, candidate, 5, voter_directory_id, 100, 4, pre_vote)


def fetch(high_watermark):
    topic_id = directory_id_from_text("AAAAAAAAAAAAAAAAAAAAAQ")
    partition = FetchPartition("", topic_id, 0, 100, 0, 5, 4, -1, CANDIDATE.directory_id, high_watermark)
    return FetchRequest("clusterX", 1, 500, 0, 1 << 20, 0, 0, -1, (partition,))


ENDPOINTS = Endpoints({"CONTROLLER": Endpoint("localhost", 9093)})
VALUES = {
    (VOTE, 2): vote(CANDIDATE, 2, VOTER_DIRECTORY_ID, True),
    (VOTE, 1): vote(CANDIDATE, 2, VOTER_DIRECTORY_ID, False),
    (VOTE, 0): vote(ReplicaKey(1), -1, NO_DIRECTORY_ID, False),
    (FETCH, 18): fetch(-1),
    (FETCH, 17): fetch(UNSUPPORTED_HIGH_WATERMARK),
    (BEGIN_QUORUM_EPOCH, 1): BeginQuorumEpochRequest("clusterX", 2, TOPIC, 0, VOTER_DIRECTORY_ID, 1, 5, ENDPOINTS),
    (BEGIN_QUORUM_EPOCH, 0): BeginQuorumEpochRequest("clusterX", -1, TOPIC, 0, NO_DIRECTORY_ID, 1, 5),
    (END_QUORUM_EPOCH, 1): EndQuorumEpochRequest(
        "clusterX", TOPIC, 0, 1, 5, preferred_candidates=(ReplicaKey(2, VOTER_DIRECTORY_ID),)
    ),
}


def test_all_vectors_are_used():
    assert FRAMES.keys() == VALUES.keys()


@pytest.mark.parametrize(("api", "version"), FRAMES, ids=[f"{api.name}-v{version}" for api, version in FRAMES])
def test_frames_are_read_and_written_as_kafka_writes_them(api, version):
    header, request = decode_request(FRAMES[api, version])
    assert (header.api, header.version, header.correlation_id, header.client_id) == (api, version, 7, "raft-client-1")
    assert request == VALUES[api, version]
    frame = encode_request(api, version, 7, "raft-client-1", request)
    assert frame[4:] == FRAMES[api, version]
    assert int.from_bytes(frame[:4], "big") == len(FRAMES[api, version])


def served_header_versions():
    for line in HEADER_LINES:
        key = int(line[0].partition("(")[2].rstrip(")"))
        for entry in line[1:]:
            version, _, headers = entry.partition(":")
            api = APIS.get(key)
            if api is not None and api.supports(int(version)):
                yield api, int(version), tuple(map(int, headers.split("/")))


HEADER_VERSIONS = list(served_header_versions())


def test_header_versions_are_kafkas():
    assert len({api for api, _, _ in HEADER_VERSIONS}) == len(HEADER_LINES) == 11
    for api, version, expected in HEADER_VERSIONS:
        assert (api.request_header_version(version), api.response_header_version(version)) == expected
