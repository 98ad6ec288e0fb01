"""Messages of the quorum's own APIs: their schemas have lists of topics, but they are about a single partition.

A request with another number of topics or partitions is read as a request for topic "" and partition -1, which do not
exist, so that its handler answers INVALID_REQUEST.  Such a response raises ProtocolError.
"""

from __future__ import annotations

from typing import Final

from kraft_trio.errors import ProtocolError
from kraft_trio.wire.error_codes import ErrorCode
from kraft_trio.wire.schema import Fields

NO_TOPIC: Final = ""
NO_PARTITION: Final = -1


def fields_of_topic(topic: str, partition: Fields) -> list[Fields]:
    """The `topics` of a request.  Some schemas call the topic's name `name`, others `topic_name`."""
    return [{"name": topic, "topic_name": topic, "partitions": [partition]}]


def topic_of_request(fields: Fields) -> tuple[str, Fields]:
    """The topic name and the partition of a request; NO_TOPIC and no fields unless it has exactly one of each."""
    topics = fields["topics"]
    if len(topics) != 1 or len(topics[0]["partitions"]) != 1:
        return NO_TOPIC, {}
    (topic,) = topics
    return topic["name"] if "name" in topic else topic["topic_name"], topic["partitions"][0]


def fields_of_answered_topic(error: ErrorCode, topic: str, partition: Fields) -> list[Fields]:
    """The `topics` of a response: empty if the request as a whole failed."""
    if error != ErrorCode.none:
        return []
    assert topic, "a response without a top-level error names the topic of its request"
    return fields_of_topic(topic, partition)


def topic_of_response(fields: Fields) -> tuple[str, Fields | None]:
    """The topic name and the partition of a response, or (NO_TOPIC, None) if it has a top-level error.

    Raises ProtocolError unless a response without an error has exactly one of each.
    """
    if fields["error_code"] != ErrorCode.none:
        return NO_TOPIC, None
    topic, partition = topic_of_request(fields)
    if not partition:
        raise ProtocolError("topics: exactly one topic with one partition was expected")
    return topic, partition
