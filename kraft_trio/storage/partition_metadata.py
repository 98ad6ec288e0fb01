"""The file `partition.metadata`: which topic a partition's directory belongs to."""

from __future__ import annotations

from uuid import UUID

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import directory_id_from_text, directory_id_to_text


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {directory_id_to_text(topic_id)}".encode()


def decode_partition_metadata(path: str, data: bytes) -> UUID:
    """The topic id.  Raises StorageError, naming the file and what is wrong with it."""
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    if fields.get("version") != "0":
        raise StorageError(f"{path}: version {fields.get('version')!r}, expected 0")
    try:
        return directory_id_from_text(fields.get("topic_id", ""))
    except ValueError as error:
        raise StorageError(f"{path}: topic_id: {error}") from None
