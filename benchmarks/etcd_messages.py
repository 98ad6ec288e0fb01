"""The two protobuf messages that the load needs, by hand (etcd's rpc.proto: PutRequest, RangeRequest)."""

from __future__ import annotations


def _bytes_field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    length, size = len(value), b""
    while length > 0x7F:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + value


def put_request(key: bytes, value: bytes) -> bytes:
    """PutRequest{key = 1, value = 2}."""
    return _bytes_field(1, key) + _bytes_field(2, value)


def range_request(key: bytes, *, serializable: bool) -> bytes:
    """RangeRequest{key = 1, serializable = 7}.  A serializable one is answered by the member alone."""
    return _bytes_field(1, key) + (bytes([7 << 3, 1]) if serializable else b"")
