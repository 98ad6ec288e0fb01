"""Commands in the log: read as they were written, refused before they are written, and told from others' records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kraft_trio.errors import EncodeError, SerdeError
from kraft_trio.kv import CommandSerde, KvMachine
from kraft_trio.kv.command_serde import PREFIX, NoCommand
from kraft_trio.kv.requests import Advance, AnnounceMember, LeaseGrantRequest, PutRequest, RequestOp, TxnRequest
from kraft_trio.kv.responses import Done
from tests.kv.machines import apply_bytes, saved
from tests.kv.test_machine_properties import DELETES, PUTS, TXNS
from tests.support import sizes

SERDE = CommandSerde()

COMMANDS: st.SearchStrategy[Any] = st.one_of(
    PUTS,
    DELETES,
    TXNS,
    st.builds(LeaseGrantRequest, st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1)),
    st.builds(Advance, st.integers(0, 2**63 - 1)),
    st.builds(AnnounceMember, st.integers(0, 9), st.lists(st.text(max_size=5), max_size=2).map(tuple)),
)


@given(COMMANDS)
@settings(max_examples=sizes.examples(120), deadline=None)
def test_commands_are_read_as_they_were_written(command: Any) -> None:
    assert SERDE.decode(SERDE.encode(command)) == command


@given(st.binary(max_size=30))
@settings(max_examples=sizes.examples(200), deadline=None)
def test_bytes_are_a_command_or_refused(data: bytes) -> None:
    try:
        command = SERDE.decode(PREFIX + data)
    except SerdeError:
        return
    assert SERDE.decode(SERDE.encode(command)) == command


@pytest.mark.parametrize(
    "command",
    [
        PutRequest("key", b""),  # type: ignore[arg-type]
        PutRequest(b"key", b"", 2**64),
        PutRequest(b"key", prev_kv=1),  # type: ignore[arg-type]
        LeaseGrantRequest("10"),  # type: ignore[arg-type]
        TxnRequest(success=[RequestOp(request_put=PutRequest(b"key"))]),  # type: ignore[arg-type]
        TxnRequest(success=(PutRequest(b"key"),)),  # type: ignore[arg-type]
        b"key",
        NoCommand(),
    ],
)
def test_what_could_not_be_read_is_not_written(command: Any) -> None:
    with pytest.raises(EncodeError):
        SERDE.encode(command)


def test_records_of_others_are_passed_over() -> None:
    machine = KvMachine()
    before = saved(machine)
    assert apply_bytes(machine, b"somebody else's") == Done()
    assert saved(machine) == before


@pytest.mark.parametrize("data", [b"", b"\xc1\xc1", b"\x91", b"\x01", b"\x91\x01\x02"])
def test_bytes_that_are_no_command_are_refused_with_a_reason(data: bytes) -> None:
    with pytest.raises(SerdeError, match=r"^no command of the key-value store: \w"):
        SERDE.decode(PREFIX + data)


def test_a_command_of_a_newer_version_stops_the_replica() -> None:
    with pytest.raises(SerdeError, match="command 99: unknown"):
        apply_bytes(KvMachine(), PREFIX + b"\x91\x63")
