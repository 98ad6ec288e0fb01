"""Messages of the quorum's own APIs: on the wire they have lists of topics, but they are about a single partition.

A request with another number of topics or partitions is read as a request for topic "" and partition -1, which do not
exist, so that its handler answers INVALID_REQUEST.  Such a response raises ProtocolError, unless it has an error as a
whole.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, TypeVar

from kraft_trio.wire.fields import Nest, String

NO_TOPIC: Final = ""

T = TypeVar("T")

_TOPICS: Final = Nest("topics", is_array=True)
_PARTITIONS: Final = Nest("partitions", is_array=True, inside=_TOPICS)
_ANSWERED_TOPICS: Final = Nest("topics", is_array=True, unless="error")
ANSWERED_PARTITIONS: Final = Nest("partitions", is_array=True, inside=_ANSWERED_TOPICS)

TopicName: TypeAlias = Annotated[String, _TOPICS, "topic_name"]
OfPartition: TypeAlias = Annotated[T, _PARTITIONS]
"""Attributes of a request."""
AnsweredTopicName: TypeAlias = Annotated[String, _ANSWERED_TOPICS, "topic_name"]
OfAnsweredPartition: TypeAlias = Annotated[T, ANSWERED_PARTITIONS]
"""Attributes of a response, which also has the attribute `error`."""
