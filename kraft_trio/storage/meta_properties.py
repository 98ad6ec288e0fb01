"""The file `meta.properties`: which cluster, node and directory a formatted directory belongs to."""

from __future__ import annotations

from uuid import UUID

import attrs
import javaproperties

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_from_text, directory_id_to_text

META_PROPERTIES = "meta.properties"


@attrs.frozen
class MetaProperties:
    """`directory_id` is NO_DIRECTORY_ID in files written before KIP-853, which do not have one."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def encode_meta_properties(properties: MetaProperties) -> bytes:
    lines = {
        "cluster.id": properties.cluster_id,
        "directory.id": directory_id_to_text(properties.directory_id),
        "node.id": str(properties.node_id),
        "version": "1",
    }
    return javaproperties.dumps(lines, timestamp=False).encode("latin-1")


def decode_meta_properties(path: str, data: bytes) -> MetaProperties:
    """Read version 1, or 0 with its `broker.id`.  Raises StorageError naming file, key and what was expected."""
    try:
        fields = javaproperties.loads(data.decode("latin-1"))
    except ValueError as error:
        raise StorageError(f"{path}: not a .properties file: {error}") from None
    version = fields.get("version")
    if version not in ("0", "1"):
        raise StorageError(f"{path}: version={version}, expected 0 or 1")
    id_key = "node.id" if version == "1" else "broker.id"
    node_id, cluster_id = fields.get(id_key, ""), fields.get("cluster.id", "")
    if not node_id.isdecimal():
        raise StorageError(f"{path}: {id_key}={node_id}, expected a whole number, 0 or more")
    if not cluster_id:
        raise StorageError(f"{path}: cluster.id is not there")
    directory_id = NO_DIRECTORY_ID
    if "directory.id" in fields:
        try:
            directory_id = directory_id_from_text(fields["directory.id"])
        except ValueError as error:
            raise StorageError(f"{path}: directory.id: {error}") from None
    return MetaProperties(cluster_id, int(node_id), directory_id)
