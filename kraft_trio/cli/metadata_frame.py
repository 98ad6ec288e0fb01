"""The frame around Apache Kafka's metadata records.

The frame is three unsigned varints before the message: frame version 1, the record's API key and its version.  Only the
names of the records are known here; messages stay bytes.
"""

from __future__ import annotations

import attrs

from kraft_trio.errors import ProtocolError

_NAMES = {
    0: "REGISTER_BROKER_RECORD",
    1: "UNREGISTER_BROKER_RECORD",
    2: "TOPIC_RECORD",
    3: "PARTITION_RECORD",
    4: "CONFIG_RECORD",
    5: "PARTITION_CHANGE_RECORD",
    7: "FENCE_BROKER_RECORD",
    8: "UNFENCE_BROKER_RECORD",
    9: "REMOVE_TOPIC_RECORD",
    10: "DELEGATION_TOKEN_RECORD",
    11: "USER_SCRAM_CREDENTIAL_RECORD",
    12: "FEATURE_LEVEL_RECORD",
    14: "CLIENT_QUOTA_RECORD",
    15: "PRODUCER_IDS_RECORD",
    17: "BROKER_REGISTRATION_CHANGE_RECORD",
    18: "ACCESS_CONTROL_ENTRY_RECORD",
    19: "REMOVE_ACCESS_CONTROL_ENTRY_RECORD",
    20: "NO_OP_RECORD",
    21: "ZK_MIGRATION_STATE_RECORD",
    22: "REMOVE_USER_SCRAM_CREDENTIAL_RECORD",
    23: "BEGIN_TRANSACTION_RECORD",
    24: "END_TRANSACTION_RECORD",
    25: "ABORT_TRANSACTION_RECORD",
    26: "REMOVE_DELEGATION_TOKEN_RECORD",
    27: "REGISTER_CONTROLLER_RECORD",
    28: "CLEAR_ELR_RECORD",
    29: "UNREGISTER_CONTROLLER_RECORD",
}
_FRAME_VERSION = 1
_MAX_VARINT_BYTES = 5


@attrs.frozen
class MetadataFrame:
    """One framed record.  `message` is everything after the frame."""

    api_key: int
    version: int
    message: bytes

    @property
    def name(self) -> str:
        """The record's name, or UNKNOWN(key)."""
        return _NAMES.get(self.api_key, f"UNKNOWN({self.api_key})")


def decode_metadata_frame(value: bytes) -> MetadataFrame:
    """Split a record's value into frame and message.  Raises ProtocolError unless it has a frame of version 1."""
    frame_version, position = _unsigned_varint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"metadata frame: version {frame_version}, expected {_FRAME_VERSION}")
    api_key, position = _unsigned_varint(value, position)
    version, position = _unsigned_varint(value, position)
    return MetadataFrame(api_key, version, value[position:])


def _unsigned_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for index, byte in enumerate(data[position : position + _MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, position + index + 1
    raise ProtocolError(f"metadata frame: the integer at position {position} does not end")
