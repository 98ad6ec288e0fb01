"""Inputs that `scripts/fuzz` found: once they led to errors that nobody expected, or to a node that ended."""

from __future__ import annotations

import attrs
import pytest

from kraft_trio.kv.command_serde import PREFIX
from kraft_trio.storage.directory.quorum_state import with_crc
from scripts.fuzzing.decoder import MEMORY_AT_LEAST, Excess, accepts, check_memory
from scripts.fuzzing.decoders import DECODERS
from scripts.fuzzing.decoders.configuration import pems
from scripts.fuzzing.decoders.files import traces

DEEP = b"[" * 2000


def one_request(request_id: bytes, outcome: bytes) -> bytes:
    """A snapshot with a table of one request; its id and outcome are msgpack."""
    request = b"\x93" + request_id + b"\x05" + outcome
    head = b"\x92\x92\xc4\x03\x92\x01\x01\x92\xaekraft.requests\xc4\x011"
    return head + b"\x92\xc4" + bytes([len(request)]) + request + b"\xc0"


TRACE = traces(ndjson=False)[0].partition(b"\x8d")[0]
"""Its header alone."""

REFUSED = {
    "a field whose name is a number": (
        "msgpack-values",
        b"\x93\xa5Order\x01\x82\xa6number\x01\x05\xa4name",
    ),
    "an outcome that is a number": ("request-tables", one_request(b"\xc4\x10" + bytes(16), b"\x07")),
    "a request id that is a text": ("request-tables", one_request(b"\xb0" + b"a" * 16, b"\xc4\x00")),
    "deep JSON among recoveries": ("recoveries", DEEP),
    "deep JSON in a trace": ("trace-ndjson", b'{"a":' + DEEP + b"\n"),
    "a field of a trace's event whose name is no text": ("trace-msgpack", TRACE + b"\x81\xc4\x01a\x01"),
    "deep lists among rules": ("acl-file", b"[[allow]]\noperations = " + DEEP),
    "deep JSON among users": ("scram-users", DEEP),
    "a rule that names no group": ("principal-rules", b"RULE:^CN=x$/$1/"),
    "a certificate whose name is a bit string": (
        "certificates",
        DECODERS["certificates"].seeds()[0].replace(b"\x0c\x01x", b"\x03\x01\x00"),
    ),
    "a certificate of an unknown version": (
        "certificates",
        DECODERS["certificates"].seeds()[0].replace(b"\xa0\x03\x02\x01\x02", b"\xa0\x03\x02\x01\x12", 1),
    ),
}


@pytest.mark.parametrize(("name", "data"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(name: str, data: bytes) -> None:
    assert not accepts(DECODERS[name], data)


@pytest.mark.parametrize("line", [b"", b"[]", b"{}", b'{"boot":"1"}', b'{"boot":-1}', b"\xff", DEEP])
def test_a_boot_counter_without_a_number_begins_again(line: bytes) -> None:
    assert DECODERS["boots"].decode(with_crc(line)) == 0


def test_a_trust_store_may_have_comments_in_any_encoding() -> None:
    assert accepts(DECODERS["pem"], "# Müller\n".encode() + pems()[0] + "# Ø\n".encode("latin-1"))


def test_an_event_with_deep_details_can_be_shown() -> None:
    nested = b"\x91" * 1000 + b"\xc0"
    event = traces(ndjson=False)[0].replace(b"\xa1a\x01", b"\xa1a" + nested)
    assert nested in event
    assert accepts(DECODERS["trace-msgpack"], event)


@pytest.mark.parametrize(("name", "prefix"), [("msgpack-values", b""), ("kv-commands", PREFIX), ("trace-msgpack", b"")])
def test_lists_in_lists_take_no_more_memory_than_msgpack_allows(name: str, prefix: bytes) -> None:
    long_list = b"\xdd" + (20_000).to_bytes(4, "big")
    data = (prefix + 1023 * long_list).ljust(64 * 1024, b"\xc0")
    check_memory(DECODERS[name], data)
    without_bound = attrs.evolve(DECODERS[name], memory_per_byte=0, memory_at_least=MEMORY_AT_LEAST)
    if name == "kv-commands":  # They are counted before they are decoded.
        check_memory(without_bound, data)
        return
    with pytest.raises(Excess):
        check_memory(without_bound, data)
