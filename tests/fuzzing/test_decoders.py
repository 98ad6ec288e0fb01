"""Every decoder of foreign bytes accepts or refuses what it is given, in bounded steps and memory."""

from __future__ import annotations

import signal
from random import Random
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.fuzzing import campaign
from scripts.fuzzing.campaign import changed, fuzz, run_apart
from scripts.fuzzing.decoder import Decoder, Excess, accepts, check_memory, check_steps
from scripts.fuzzing.decoders import DECODERS
from scripts.fuzzing.mutation import MAX_BYTES
from tests.support import sizes

EXAMPLES = 24
UNREADABLE_SEEDS = {"pkcs12", "principal-rules"}
"""No file is both a key store and a trust store; a rule may match no name."""


@pytest.mark.parametrize("name", DECODERS)
def test_sound_inputs_are_accepted(name: str) -> None:
    decoder = DECODERS[name]
    found = [accepts(decoder, seed) for seed in decoder.seeds()]
    assert found
    assert name in UNREADABLE_SEEDS or any(found)


@pytest.mark.parametrize("name", DECODERS)
def test_changed_inputs_are_accepted_or_refused(name: str) -> None:
    decoder = DECODERS[name]
    random, seeds = Random(f"{name} {sizes.base()}"), decoder.seeds()
    for seed in seeds[:1]:
        accepts(decoder, seed)  # so that what is imported late is there
    for number in range(sizes.examples(EXAMPLES * 4)):
        data = changed(decoder, random, seeds)
        check = (accepts, accepts, check_memory, check_steps)[number % 4]
        check(decoder, data)


@given(st.sampled_from(list(DECODERS)), st.binary(max_size=200))
def test_any_bytes_are_accepted_or_refused(name: str, data: bytes) -> None:
    """Hypothesis finds and shows the shortest."""
    accepts(DECODERS[name], data)


# What the fuzzer itself must see


def _decoder(decode: object) -> Decoder:
    return Decoder("test", lambda: [b"seed"], decode, (ValueError,))  # type: ignore[arg-type]


def test_an_undocumented_error_is_found_and_made_small() -> None:
    def decode(data: bytes) -> None:
        if b"s" in data:
            raise KeyError("an undocumented error")
        raise ValueError("a documented one")

    [finding] = run_apart(_decoder(decode), 0.05, 0, lambda _: None).findings.values()
    assert finding.data == b"s"
    assert "an undocumented error" in finding.error


def test_a_killed_process_is_a_finding_with_its_input() -> None:
    def decode(data: bytes) -> None:
        import os
        import signal

        if len(data) > 4:
            os.kill(os.getpid(), signal.SIGKILL)

    [finding] = run_apart(_decoder(decode), 5, 0, lambda _: None).findings.values()
    assert len(finding.data) > 4
    assert "code -9" in finding.error


def test_input_that_takes_too_long_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the processor time of one input: all those before it, which took longer together, do not count."""

    def decode(data: bytes) -> None:
        until = process_time() + 0.02
        while process_time() < until or len(data) > 40:
            pass

    monkeypatch.setattr(campaign, "HANG_S", 0.4)
    decoder = _decoder(decode)
    [finding] = run_apart(decoder, 60, 0, lambda _: None).findings.values()
    assert len(finding.data) > 40
    assert f"code -{signal.SIGPROF.value}" in finding.error


def test_an_input_that_its_repair_makes_longer_stays_within_bounds() -> None:
    """Or the input would not fit where the child keeps its last one, and the child would end."""
    longest = MAX_BYTES * b"x"
    decoder = Decoder("test", lambda: [longest], lambda _: None, (), repair=lambda data: data.extend(b"checksum"))
    outcome = run_apart(decoder, 0.3, 0, lambda _: None)
    assert outcome.examples > 1
    assert outcome.findings == {}


def test_excess_is_seen() -> None:
    def spin(data: bytes) -> None:
        for _ in range(10**6):
            data = data[:]

    with pytest.raises(Excess, match="lines of Python"):
        check_steps(_decoder(spin), b"")
    with pytest.raises(Excess, match="bytes of memory"):
        check_memory(_decoder(lambda data: bytearray(10**7)), b"")


def test_a_seed_repeats_a_run() -> None:
    def inputs(seed: int) -> list[bytes]:
        seen: list[bytes] = []

        def decode(data: bytes) -> None:
            seen.append(data)
            if len(seen) > 200:
                raise ValueError

        fuzz(_decoder(decode), 0.05, seed, lambda _: None, lambda _: None)
        return seen[:200]

    assert inputs(1) == inputs(1) != inputs(2)
