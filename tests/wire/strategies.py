"""What the values of messages are made of."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from hypothesis import strategies as st

from kraft_trio.protocol.types import Endpoint, Endpoints, OffsetAndEpoch, ReplicaKey, VersionRange
from kraft_trio.wire.error_codes import ErrorCode

NO_ID = UUID(int=0)
FOREVER = 1_000

int8 = st.integers(-(2**7), 2**7 - 1)
int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
ids = st.integers(0, 2**31 - 1)
texts = st.text(max_size=12)
names = st.text(min_size=1, max_size=12)
uuids = st.uuids()
errors = st.sampled_from(ErrorCode)
keys = st.builds(ReplicaKey, ids, uuids)
endpoint = st.builds(Endpoint, texts, st.integers(0, 2**16 - 1))
listeners = st.lists(st.tuples(texts, endpoint), max_size=3).map(Endpoints)
ends = st.builds(OffsetAndEpoch, st.integers(0, 2**63 - 1), ids)
records = st.binary(max_size=200)


def tuples(of: st.SearchStrategy[Any], **sizes: int) -> st.SearchStrategy[Any]:
    return st.lists(of, **({"max_size": 3} | sizes)).map(tuple)


def topic_response(response_type: Any, **fields: Any) -> st.SearchStrategy[Any]:
    """A response of the quorum's own APIs: a top-level error and nothing else, or an answer for one partition."""
    failed = st.builds(response_type, error=st.sampled_from([code for code in ErrorCode if code != ErrorCode.none]))
    return failed | st.builds(response_type, topic=names, partition=int32, partition_error=errors, **fields)


nodes_of_client_apis = tuples(st.tuples(ids, endpoint))

voter_changes = {"error": errors, "error_message": st.none() | texts}
version_ranges = st.builds(VersionRange, int16, int16)
