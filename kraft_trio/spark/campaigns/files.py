"""The directory of a campaign: Parquet files with the results of each chunk and the traces of failing seeds.

A file gets its name when it is complete.  A campaign that was interrupted continues with the seeds that have no result.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from kraft_trio.errors import ConfigError, StorageError
from kraft_trio.simulation.campaign.outcome import Failure, Outcome
from kraft_trio.spark.decoding.trace_events import trace_batches
from kraft_trio.spark.schemas import TRACE, Column, arrow_schema
from kraft_trio.storage.disk.created_files import DIRECTORY_MODE, write_own_text
from kraft_trio.system.durability import sync_all

_COUNTS = pa.map_(pa.string(), pa.int64())

COLUMNS: Final = (
    Column("seed", pa.int64(), "the seed"),
    Column("ok", pa.bool_(), "whether nothing was violated"),
    Column("rule", pa.string(), "`invariant N`, `simulation`, `stuck`, `died`, or an exception's name"),
    Column("title", pa.string(), "the rule in words, or the exception's message"),
    Column("failed_at_s", pa.float64(), "virtual seconds until the failure"),
    Column("facts", pa.list_(pa.field("element", pa.string())), "the facts that contradict each other"),
    Column("events", pa.list_(pa.field("element", pa.string())), "the last events of the nodes concerned"),
    Column("virtual_s", pa.float64(), "virtual length of the run"),
    Column("real_s", pa.float64(), "real length of the run"),
    Column("digest", pa.string(), "digest of all events; equal for equal runs"),
    Column("counts", _COUNTS, "counts of events, as `kraft simulate` prints them"),
    Column("faults", _COUNTS, "counts of planned faults by kind"),
    Column("transitions", _COUNTS, "counts of role transitions by row of the transition table"),
    Column(
        "slowest_election_us",
        pa.int64(),
        "longest time from the start of an election to its leader",
    ),
    Column("slowest_election_at_us", pa.int64(), "when that leader was elected"),
    Column("repeats", pa.bool_(), "whether the run for the trace was identical"),
    Column("replay", pa.string(), "command line that repeats the run"),
)
"""The columns of the result files."""

DESCRIPTION: Final = "campaign.json"
RESULTS: Final = "results"
TRACES: Final = "traces"
SUMMARY: Final = "summary.txt"


@attrs.frozen
class CampaignDirectory:
    """The `--out` directory of one campaign.  Every process that runs seeds must reach it by this path."""

    path: Path

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Create or continue it.  Raises ConfigError if it belongs to a campaign with other settings, or is not a
        campaign's.
        """
        description = self.path / DESCRIPTION
        if description.exists():
            self._check(description, settings)
        elif self.path.is_dir() and any(self.path.iterdir()):
            raise ConfigError(
                f"--out {self.path}: not empty, and without {DESCRIPTION}; expected a campaign or nothing"
            )
        for name in (RESULTS, TRACES):
            (self.path / name).mkdir(DIRECTORY_MODE, parents=True, exist_ok=True)
        if not description.exists():
            with _named_when_whole(description) as unfinished:
                write_own_text(unfinished, json.dumps(settings, indent=2) + "\n")

    def _check(self, description: Path, settings: Mapping[str, Any]) -> None:
        try:
            before = json.loads(description.read_text())
        except ValueError as error:
            raise ConfigError(f"--out {self.path}: {DESCRIPTION}: {error}; expected that of a campaign") from error
        if not isinstance(before, dict):
            raise ConfigError(f"--out {self.path}: {DESCRIPTION}: {before}; expected that of a campaign")
        for name in dict.fromkeys([*settings, *before]):
            if before.get(name) != settings.get(name):
                raise ConfigError(
                    f"--out {self.path}: {name}: {settings.get(name)}; expected {before.get(name)}, as the campaign "
                    "there has it"
                )

    def outcomes(self, seeds: Collection[int]) -> dict[int, Outcome]:
        """The stored results of these seeds.  Raises StorageError if a file cannot be read."""
        wanted = frozenset(seeds)
        return {row["seed"]: _outcome(row) for row in self._rows() if row["seed"] in wanted}

    def _rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        for path in sorted((self.path / RESULTS).glob("*.parquet")):
            try:
                yield from pq.read_table(path, columns=columns, schema=arrow_schema(COLUMNS)).to_pylist()
            except (pa.ArrowException, OSError) as error:
                raise StorageError(
                    f"{path}: {error}; expected results of a campaign; without the file its seeds are run again"
                ) from error

    def keep(
        self, outcomes: Sequence[Outcome], replay: Callable[[int], str], traced: Callable[[int, str], Outcome]
    ) -> None:
        """Write the results of a chunk, after the traces of its failures.

        `traced(seed, path)` repeats a seed and writes its trace to the path.  Raises OSError.
        """
        rows = []
        for outcome in outcomes:
            row = _row(outcome, replay(outcome.seed))
            if outcome.failure is not None and outcome.can_be_repeated:
                row["repeats"] = self._keep_trace(outcome.seed, traced).digest == outcome.digest
            rows.append(row)
        table = pa.Table.from_pylist(rows, schema=arrow_schema(COLUMNS))
        with _named_when_whole(self.path / RESULTS / f"seeds-{outcomes[0].seed:08d}.parquet") as unfinished:
            pq.write_table(table, unfinished, compression="zstd")

    def _keep_trace(self, seed: int, traced: Callable[[int, str], Outcome]) -> Outcome:
        with tempfile.TemporaryDirectory(prefix="kraft-trace-") as scratch:
            trace = Path(scratch) / "trace"
            again = traced(seed, str(trace))
            with _named_when_whole(self.path / TRACES / f"seed-{seed:08d}.parquet") as unfinished:
                with pq.ParquetWriter(unfinished, arrow_schema(TRACE), compression="zstd") as writer:
                    with trace.open("rb") as content:
                        for batch in trace_batches(content, f"seed {seed}"):
                            writer.write_batch(batch)
        return again

    def check_is_shared(self, seeds: Collection[int]) -> None:
        """Raises StorageError if results of these seeds, which have run, are not visible here."""
        there = {row["seed"] for row in self._rows(["seed"])}
        missing = sorted(set(seeds) - there)
        if missing:
            raise StorageError(
                f"--out {self.path}: no result of seed {missing[0]}, of {len(missing)} seeds in all, which have run; "
                "expected a directory that every executor reaches by this path"
            )

    def write_summary(self, lines: Iterable[str]) -> None:
        """Store the printed summary.  Raises OSError."""
        with _named_when_whole(self.path / SUMMARY) as unfinished:
            write_own_text(unfinished, "".join(f"{line}\n" for line in lines))


@contextmanager
def _named_when_whole(path: Path) -> Iterator[Path]:
    """A temporary file that gets its name when the block ends without an error."""
    # Two attempts of one task may write it at the same time.
    unfinished = path.with_name(f".{path.name}.{platform.node()}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            sync_all(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _row(outcome: Outcome, replay: str) -> dict[str, Any]:
    failure = outcome.failure
    return {
        "seed": outcome.seed,
        "ok": failure is None,
        "rule": None if failure is None else failure.rule,
        "title": None if failure is None else failure.title,
        "failed_at_s": None if failure is None else failure.time_s,
        "facts": None if failure is None else list(failure.facts),
        "events": None if failure is None else list(failure.events),
        "virtual_s": outcome.virtual_s,
        "real_s": outcome.real_s,
        "digest": outcome.digest,
        "counts": _entries(outcome.counts),
        "faults": _entries(outcome.faults),
        "transitions": _entries(outcome.transitions),
        "slowest_election_us": outcome.slowest_election_us,
        "slowest_election_at_us": outcome.slowest_election_at_us,
        "repeats": None,
        "replay": replay,
    }


def _outcome(row: Mapping[str, Any]) -> Outcome:
    failure = None
    if not row["ok"]:
        facts, events = tuple(row["facts"]), tuple(row["events"])
        failure = Failure(row["rule"], row["title"], row["failed_at_s"], facts, events)
    return Outcome(
        row["seed"],
        failure,
        row["virtual_s"],
        row["real_s"],
        row["digest"],
        dict(row["counts"]),
        dict(row["faults"]),
        dict(row["transitions"]),
        row["slowest_election_us"],
        row["slowest_election_at_us"],
    )


def _entries(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items())
