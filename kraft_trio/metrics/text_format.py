"""A node's metrics in Prometheus text format.

This does without prometheus_client, which takes a tenth of a node's start to import.  An application's own collectors
need it (`metrics.registry`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from kraft_trio.metrics.definitions import COLLECTED_AT, NODE_LABEL, Metric

Labels: TypeAlias = Mapping[str, str]

PROMETHEUS: Final = b"text/plain; version=0.0.4; charset=utf-8"
"""The content type."""
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_MEANING_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


@attrs.frozen
class Sample:
    labels: Labels
    value: float


@attrs.frozen
class Family:
    """One metric with its samples; none without a current value."""

    name: str
    meaning: str
    samples: Sequence[Sample]


def families(
    node_id: int,
    metrics: Iterable[Metric],
    values: Mapping[str, float | str],
    samples: Mapping[str, Sequence[Sample]],
    now_ms: int,
) -> Iterable[Family]:
    """The families of one node's metrics.  By KIP name, `values` has those with one sample, `samples` the others."""
    node = {NODE_LABEL: str(node_id)}
    for metric in metrics:
        labels = {**node, **dict(metric.tags)}
        value = values.get(metric.name)
        found: Sequence[Sample] = ()
        if metric.dimensions:
            found = [Sample({**labels, **one.labels}, one.value) for one in samples.get(metric.name, ())]
        elif isinstance(value, str):
            found = (Sample({**labels, metric.label: value}, 1),)
        elif value is not None:
            found = (Sample(labels, value),)
        yield Family(metric.prometheus_name, metric.meaning, found)
        for other in metric.other_names:
            if isinstance(value, str):
                found = (Sample({**labels, **dict.fromkeys(other.labels, value)}, 1),)
            yield Family(other.name, metric.meaning, found)
    yield Family(COLLECTED_AT, "When these values were collected.", (Sample(node, now_ms / 1000),))


def as_text(families: Iterable[Family], *, open_metrics: bool = False) -> bytes:
    """For gauges, OpenMetrics differs in its escapes and its last line alone."""
    lines: list[str] = []
    escapes = _ESCAPES if open_metrics else _MEANING_ESCAPES
    for family in families:
        lines.append(f"# HELP {family.name} {family.meaning.translate(escapes)}\n# TYPE {family.name} gauge\n")
        for sample in family.samples:
            labels = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in sorted(sample.labels.items()))
            lines.append(f"{family.name}{{{labels}}} {float(sample.value)!r}\n")
    if open_metrics:
        lines.append("# EOF\n")
    return "".join(lines).encode()
