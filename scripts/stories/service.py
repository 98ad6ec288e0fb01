"""What an application noticed of a change: the appends during it, and the gaps between their acknowledgements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs

COLUMNS = ("", "appends", "median", "99 %", "slowest", "longest gap", "in all")


@attrs.frozen
class Append:
    """A record that the application wrote; times are in seconds on one clock."""

    sent_s: float
    acknowledged_s: float

    @property
    def latency_s(self) -> float:
        return self.acknowledged_s - self.sent_s


@attrs.frozen
class Service:
    """The service during one part of a story, in seconds."""

    latencies_s: tuple[float, ...]
    """In ascending order; at least one."""
    longest_gap_s: float
    """The longest time between two acknowledgements."""
    duration_s: float

    def percentile_s(self, percent: float) -> float:
        """The latency that this share of the appends did not exceed."""
        return self.latencies_s[max(0, math.ceil(len(self.latencies_s) * percent / 100) - 1)]


def service_during(appends: Sequence[Append], began_s: float, ended_s: float) -> Service:
    """The service between two times.  An append or a gap counts if any part of it lies between them."""
    touched = [append for append in appends if append.acknowledged_s >= began_s and append.sent_s <= ended_s]
    acknowledged_s = [append.acknowledged_s for append in appends]
    gaps_s = [later - earlier for earlier, later in pairwise(acknowledged_s) if later >= began_s and earlier <= ended_s]
    latencies_s = tuple(sorted(append.latency_s for append in touched))
    return Service(latencies_s, max(gaps_s, default=0.0), ended_s - began_s)


def table(rows: Mapping[str, Service]) -> str:
    """One row for each part, by its name."""
    cells = [COLUMNS, *((name, *_cells(service)) for name, service in rows.items())]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) if number else cell.ljust(width) for number, (cell, width) in enumerate(row))
        for row in (zip(line, widths, strict=True) for line in cells)
    )


def _cells(service: Service) -> tuple[str, ...]:
    milliseconds = (
        service.percentile_s(50),
        service.percentile_s(99),
        service.latencies_s[-1],
        service.longest_gap_s,
    )
    return (
        str(len(service.latencies_s)),
        *(f"{value * 1000:.0f} ms" for value in milliseconds),
        f"{service.duration_s:.1f} s",
    )
