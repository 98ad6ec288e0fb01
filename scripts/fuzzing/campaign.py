"""Runs one decoder for a time, in a process of its own, whose memory and processor time are limited."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import resource
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import SynchronizedArray
from random import Random
from typing import Any, Final

import attrs

from scripts.fuzzing.decoder import Decoder, accepts, try_out
from scripts.fuzzing.mutation import MAX_BYTES, mutated, smallest

ADDRESS_SPACE_BYTES: Final = 3 * 1024**3
HANG_S: Final = 30
"""Processor time after which one input is a hang."""
PROGRESS_S: Final = 10.0
_CORPUS: Final = 200
MEMORY: Final = "/dev/shm"
"""Where the decoders' files are, if the system has it."""
_starting = threading.Lock()


@attrs.frozen
class Finding:
    """An input that a decoder neither accepts nor refuses as it is documented to."""

    decoder: str
    data: bytes
    error: str


@attrs.define
class Outcome:
    """What a campaign has done so far."""

    decoder: str
    seconds: float = 0.0
    """Of processor time."""
    examples: int = 0
    accepted: int = 0
    longest_s: float = 0.0
    findings: dict[str, Finding] = attrs.field(factory=dict)
    """By the place where the error was raised."""


def run_apart(decoder: Decoder, seconds: float, seed: int, progress: Callable[[Outcome], object]) -> Outcome:
    """Run it in a child process.  One that hangs, or is killed, is a finding with the input that it had last."""
    with tempfile.TemporaryDirectory(prefix="kraft-fuzz-", dir=MEMORY if os.path.isdir(MEMORY) else None) as home:
        return _run(decoder, seconds, seed, progress, home)


def _run(decoder: Decoder, seconds: float, seed: int, progress: Callable[[Outcome], object], home: str) -> Outcome:
    last: Any = multiprocessing.Array("c", MAX_BYTES + 8)
    with _starting:  # or the child of another thread would inherit, and so hold open, the end that is written
        ours, theirs = multiprocessing.Pipe(duplex=False)
        child = multiprocessing.get_context("fork").Process(
            target=_child, args=(decoder, seconds, seed, theirs, last, home)
        )
        child.start()
        theirs.close()
    outcome = Outcome(decoder.name)
    with contextlib.suppress(EOFError):
        while True:
            outcome = ours.recv()
            progress(outcome)
    child.join()
    if child.exitcode != 0:
        error = f"the process ended with code {child.exitcode} (-{signal.SIGPROF}: more than {HANG_S} s for one input)"
        outcome.findings["process"] = Finding(decoder.name, _input(last), error)
    return outcome


def _child(
    decoder: Decoder, seconds: float, seed: int, answers: Connection, last: SynchronizedArray[bytes], home: str
) -> None:
    tempfile.tempdir = home
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable()
    warnings.simplefilter("ignore")

    def note(data: bytes) -> None:
        """Keep the input where it outlives this process, and allow it some time."""
        content: Any = last.get_obj()
        content.raw = len(data).to_bytes(8, "big") + data
        # Not RLIMIT_CPU: the kernel counts ticks for it, and in minutes those are far from what getrusage tells.
        signal.setitimer(signal.ITIMER_PROF, HANG_S)

    fuzz(decoder, seconds, seed, note, answers.send)
    answers.close()
    os._exit(0)  # this fork of a thread has no interpreter to shut down


def _input(last: Any) -> bytes:
    content = last.get_obj().raw
    return bytes(content[8 : 8 + int.from_bytes(content[:8], "big")])


def fuzz(
    decoder: Decoder,
    seconds: float,
    seed: int,
    note: Callable[[bytes], object],
    progress: Callable[[Outcome], object],
) -> None:
    """Give the decoder changed inputs for so long, in processor time.  Sends `progress` the outcome now and then."""
    random = Random(f"{decoder.name} {seed}")
    seeds: Sequence[bytes] = decoder.seeds()
    corpus = [*seeds]
    for data in seeds:  # also imports what is imported late
        with contextlib.suppress(Exception):
            decoder.decode(data)
    outcome = Outcome(decoder.name)
    began = told = time.process_time()
    while outcome.seconds < seconds:
        data = bytes(random.choice(seeds)) if outcome.examples < len(seeds) else changed(decoder, random, corpus)
        note(data)
        before = time.process_time()
        try:
            if try_out(decoder, outcome.examples, data):
                outcome.accepted += 1
                _keep(random, corpus, len(seeds), data)
        except BaseException as error:
            outcome.longest_s = max(outcome.longest_s, time.process_time() - before)
            before = inf
            place = where(error)
            if place not in outcome.findings:
                found = smallest(data, partial(_fails_at, decoder, place, note))
                text = "".join(traceback.format_exception(error, limit=-6))
                outcome.findings[place] = Finding(decoder.name, found, text)
        now = time.process_time()
        outcome.examples += 1
        outcome.seconds = now - began
        outcome.longest_s = max(outcome.longest_s, now - before)
        if now - told > PROGRESS_S:
            told = now
            progress(outcome)
    progress(outcome)


def changed(decoder: Decoder, random: Random, corpus: Sequence[bytes]) -> bytes:
    """A changed input of at most MAX_BYTES, mostly with right checksums."""
    data = mutated(random, corpus)
    if decoder.repair is not None and random.random() < 0.85:
        decoder.repair(data)
    return bytes(data[:MAX_BYTES])  # a repair may add to it


def _keep(random: Random, corpus: list[bytes], seeds: int, data: bytes) -> None:
    """Accepted inputs are changed further; the seeds stay."""
    if len(corpus) < seeds + _CORPUS:
        corpus.append(data)
    else:
        corpus[seeds + random.randrange(_CORPUS)] = data


def where(error: BaseException) -> str:
    """The kind of an error, and the line that raised it."""
    *_, last = traceback.extract_tb(error.__traceback__) or [None]
    return type(error).__name__ if last is None else f"{type(error).__name__} at {last.filename}:{last.lineno}"


def _fails_at(decoder: Decoder, place: str, note: Callable[[bytes], object], data: bytes) -> bool:
    note(data)
    try:
        accepts(decoder, data)
    except BaseException as error:
        return where(error) == place
    return False
