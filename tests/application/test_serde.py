"""Values of an application to bytes and back."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.application.serde import MsgpackSerde, RawSerde
from kraft_trio.errors import SerdeError


@attrs.frozen
class Put:
    key: str
    value: bytes
    tags: tuple[str, ...] = ()


@attrs.frozen
class Delete:
    key: str


@attrs.frozen
class DeleteV2:
    key: str
    if_exists: bool


def test_values_come_back_as_the_class_they_were() -> None:
    serde = MsgpackSerde(Put, Delete)
    for value in (Put("a", b"\x00\xff", ("x", "y")), Delete("ä")):
        assert serde.decode(serde.encode(value)) == value


def test_old_versions_of_a_tag_stay_readable() -> None:
    old = MsgpackSerde()
    old.register(Delete, tag="delete", version=1)
    new = MsgpackSerde()
    new.register(Delete, tag="delete", version=1)
    new.register(DeleteV2, tag="delete", version=2)
    assert new.decode(old.encode(Delete("a"))) == Delete("a")
    assert new.decode(new.encode(DeleteV2("a", True))) == DeleteV2("a", True)
    with pytest.raises(SerdeError, match=r"tag 'delete' version 2 \(known: delete v1\)"):
        old.decode(new.encode(DeleteV2("a", True)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are not a value"),
        (b"\xc1", "not a value"),
        (b"\x01", "not a value"),
        (b"\x93\xa3Put\x01", "not a value"),
        (b"\x93\xa3Put\x01\x81\xa3key\x01", "'Put' version 1"),
        (b"\x93\xa3Put\x01\x83\xa3key\xa1a\xa5value\xc4\x00\xa5extra\x01", "extra"),
        (b"\x93\x90\x01\x80", "not a value"),
    ],
)
def test_bytes_that_nobody_wrote_are_refused_by_name(data: bytes, message: str) -> None:
    with pytest.raises(SerdeError, match=message):
        MsgpackSerde(Put).decode(data)


def test_unknown_classes_and_taken_tags_are_refused() -> None:
    serde = MsgpackSerde(Put)
    with pytest.raises(SerdeError, match=r"Delete is not registered with this serde \(known: Put\)"):
        serde.encode(Delete("a"))
    with pytest.raises(ValueError, match="registered already"):
        serde.register(Delete, tag="Put")
    with pytest.raises(ValueError, match="int is not an attrs class"):
        serde.register(int)
    with pytest.raises(ValueError, match=r"Put \| .*Delete is not an attrs class"):
        MsgpackSerde(Put | Delete)  # type: ignore[arg-type]


def test_raw_bytes_stay_what_they_are() -> None:
    assert RawSerde().decode(RawSerde().encode(bytearray(b"abc"))) == b"abc"
    with pytest.raises(SerdeError, match="str given, bytes expected"):
        RawSerde().encode("abc")
