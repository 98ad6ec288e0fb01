"""The file `meta.properties`: which cluster, node and directory a formatted directory belongs to."""

from __future__ import annotations

import re
from uuid import UUID

import attrs
import javaproperties

from kraft_trio.errors import StorageError
from kraft_trio.protocol.types import NO_DIRECTORY_ID, directory_id_from_text, directory_id_to_text
from kraft_trio.storage.disk.unreadable import blank_text

META_PROPERTIES = "meta.properties"
_NUMBER = re.compile(r"[0-9]{1,19}")
_LARGEST_NODE_ID = 2**31 - 1
_SHOWN_CHARACTERS = 60


@attrs.frozen
class MetaProperties:
    """`directory_id` is NO_DIRECTORY_ID in files written before KIP-853, which do not have one.

    `version` is that of the file that was read.  A new file has version 1.
    """

    cluster_id: str
    node_id: int
    directory_id: UUID
    version: int = attrs.field(default=1, eq=False)


def encode_meta_properties(properties: MetaProperties) -> bytes:
    lines = {
        "cluster.id": properties.cluster_id,
        "directory.id": directory_id_to_text(properties.directory_id),
        "node.id": str(properties.node_id),
        "version": "1",
    }
    return javaproperties.dumps(lines, timestamp=False).encode("latin-1")


class NewerVersionError(StorageError):
    """A newer release has written the file."""


def decode_meta_properties(path: str, data: bytes) -> MetaProperties:
    """Read version 1, or 0 with its `broker.id`.  Raises StorageError naming file, key and what was expected."""
    blank = blank_text(data)
    if blank is not None:
        raise StorageError(f"{path}: {blank}, expected version, cluster.id, node.id and directory.id")
    try:
        fields = javaproperties.loads(data.decode("latin-1"))
    except ValueError as error:
        raise StorageError(f"{path}: not a .properties file: {error}") from None
    version = fields.get("version", "")
    if version.isascii() and version.isdecimal() and version not in ("0", "1"):
        raise NewerVersionError(f"{path}: version={_shown(version)}, expected 0 or 1: start the release that wrote it")
    if version not in ("0", "1"):
        raise StorageError(f"{path}: version={_shown(version)}, expected 0 or 1")
    id_key = "node.id" if version == "1" else "broker.id"
    node_id, cluster_id = fields.get(id_key, ""), fields.get("cluster.id", "")
    # Its length first: Python makes no number of very many digits.
    if _NUMBER.fullmatch(node_id) is None or int(node_id) > _LARGEST_NODE_ID:
        raise StorageError(f"{path}: {id_key}={_shown(node_id)}, expected a whole number from 0 to {_LARGEST_NODE_ID}")
    if not cluster_id:
        raise StorageError(f"{path}: cluster.id is not there")
    if not _is_text(cluster_id):
        raise StorageError(f"{path}: cluster.id={_shown(cluster_id)}, expected text, not half of a surrogate pair")
    directory_id = NO_DIRECTORY_ID
    if "directory.id" in fields:
        try:
            directory_id = directory_id_from_text(fields["directory.id"])
        except ValueError as error:
            raise StorageError(f"{path}: directory.id: {error}") from None
    return MetaProperties(cluster_id, int(node_id), directory_id, int(version))


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    """Enough of it to be recognized, as something that can be printed."""
    if text and not text.strip("\0"):
        return f"{len(text)} zero bytes"
    shown = text.encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= _SHOWN_CHARACTERS else f"{shown[:_SHOWN_CHARACTERS]}…"
