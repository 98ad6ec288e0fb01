"""The file of a campaign that runs over several sittings: a line of JSON for each seed that has ended."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BufferedRandom
from operator import index
from pathlib import Path
from typing import Any, Final

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.simulation.campaign.outcome import Failure, Outcome
from kraft_trio.simulation.campaign.reached import packed, unpacked
from kraft_trio.simulation.campaign.strata import digest_of_plans, strata_of
from kraft_trio.simulation.faults.nemesis import PlanOptions
from kraft_trio.storage.disk.created_files import DIRECTORY_MODE, open_own
from kraft_trio.system.file_locks import flock

FILE: Final = "campaign.jsonl"
_FORMAT: Final = "kraft-trio seeds 2"
_SHOWN: Final = 60
"""How many bytes of a line are shown that is none of a campaign."""


@attrs.frozen
class Ended:
    """A seed that has ended, as the file has it."""

    seed: int
    virtual_s: float
    real_s: float
    digest: str
    reached: tuple[int, ...]
    """The numbers of the names in `reached.REACHABLE`."""
    failure: Failure | None


class StateFile:
    """Only ever appended to.  A line that a killed process has begun is cut off, so its seed runs again."""

    def __init__(self, path: Path, file: BufferedRandom) -> None:
        self._path = path
        self._file = file
        self.options: PlanOptions | None = None
        """Those of the campaign; None for a new one."""
        self.seeds = range(0)
        """Those to run, as the last sitting has named them."""

    @classmethod
    @contextmanager
    def opened(cls, directory: Path) -> Iterator[StateFile]:
        """Open or create the file; one process at a time.

        Raises ConfigError if another process has it, and OSError.
        """
        directory.mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        path = directory / FILE
        with os.fdopen(open_own(str(path), os.O_RDWR | os.O_CREAT), "r+b") as file:
            try:
                flock(file.fileno())
            except BlockingIOError:
                raise ConfigError(f"--state {directory}: another process runs seeds of it") from None
            yield cls(path, file)

    def read(self) -> list[Ended]:
        """The seeds that have ended, in that order; `options` and `seeds` are known afterwards.

        Raises ConfigError if the lines are not those of a campaign, or of one with other plans.
        """
        self._file.seek(0)
        ended: list[Ended] = []
        whole = 0
        for number, line in enumerate(self._file, 1):
            if not line.endswith(b"\n"):
                break
            try:
                self._take(json.loads(line), ended)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                what = "the first line" if self.options is None else "a line"
                shown = repr(line[:_SHOWN].rstrip(b"\n"))[1:]
                raise ConfigError(
                    f"{self._path}: line {number}: {shown}; expected {what} of a campaign of this version"
                ) from error
            whole += len(line)
        self._file.truncate(whole)
        self._file.seek(whole)
        return ended

    def _take(self, value: Any, ended: list[Ended]) -> None:
        if self.options is None:
            self._begun(value)
        elif "seeds" in value:
            self._chosen(value)
        else:
            ended.append(_ended(value))

    def _chosen(self, value: Any) -> None:
        start, stop = value["seeds"]
        self.seeds = range(start, stop)

    def _begun(self, header: Any) -> None:
        if header["format"] != _FORMAT:
            raise ValueError(header["format"])
        options = PlanOptions(**{**header["options"], "profiles": tuple(header["options"]["profiles"])})
        if header["plans"] != digest_of_plans(strata_of(options)):
            raise ConfigError(
                f"{self._path}: of a version whose seeds have other plans; expected plans {header['plans']}, "
                "or another directory"
            )
        self._chosen(header)
        self.options = options

    def begin(self, options: PlanOptions, seeds: range) -> None:
        """Write the first line.  Raises OSError."""
        self.options, self.seeds = options, seeds
        self._append(
            {
                "format": _FORMAT,
                "plans": digest_of_plans(strata_of(options)),
                "options": {
                    "voters": options.voters,
                    "observers": options.observers,
                    "duration_us": options.duration_us,
                    "profiles": options.profiles,
                },
                "seeds": [seeds.start, seeds.stop],
            }
        )

    def choose(self, seeds: range) -> None:
        """From now on, these are the seeds to run.  Raises OSError."""
        self.seeds = seeds
        self._append({"seeds": [seeds.start, seeds.stop]})

    def add(self, outcome: Outcome) -> Ended:
        """Write down that a seed has ended.  Raises OSError."""
        line = _line(outcome)
        self._append(line)
        return _ended(line)

    def _append(self, value: Mapping[str, Any]) -> None:
        try:
            self._file.write(json.dumps(value, separators=(",", ":")).encode() + b"\n")
            self._file.flush()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from error


def _line(outcome: Outcome) -> dict[str, Any]:
    failure = outcome.failure
    line = {
        "seed": outcome.seed,
        "virtual_s": outcome.virtual_s,
        "real_s": round(outcome.real_s, 3),
        "digest": outcome.digest,
        "reached": packed(outcome.reached),
    }
    if failure is not None:
        line["failure"] = [failure.rule, failure.title, failure.time_s, list(failure.facts)]
    return line


def _ended(line: Mapping[str, Any]) -> Ended:
    """Raises KeyError, TypeError and ValueError."""
    failure = None
    if "failure" in line:
        rule, title, time_s, facts = line["failure"]
        failure = Failure(str(rule), str(title), float(time_s), tuple(map(str, facts)))
    reached = tuple(unpacked(line["reached"]))
    return Ended(
        *(index(line["seed"]), float(line["virtual_s"]), float(line["real_s"]), str(line["digest"])),
        *(reached, failure),
    )
