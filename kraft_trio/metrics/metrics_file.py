"""`metrics.prom` in a node's directory, which makes a running node's metrics readable without a connection.

The file has the Prometheus text format, and is replaced atomically, for the textfile collector of node_exporter.  It is
never fsynced, because nobody needs it after a crash.  The node removes it when it stops.
"""

from __future__ import annotations

from typing import Final

import attrs
import trio

from kraft_trio.errors import StorageError
from kraft_trio.logs import get_logger
from kraft_trio.metrics.definitions import COLLECTED_AT, METRICS, NODE_LABEL
from kraft_trio.metrics.node_metrics import NodeMetrics
from kraft_trio.storage.disk.created_files import READABLE_MODE
from kraft_trio.storage.disk.disk import Disk, join

log = get_logger(__name__)

METRICS_FILE: Final = "metrics.prom"

_BY_PROMETHEUS_NAME: Final = {metric.prometheus_name: metric for metric in METRICS}
_WITH_DIMENSIONS: Final = frozenset(metric.name for metric in METRICS if metric.dimensions)


class MetricsFile:
    """Writes the file off the event loop while it runs.  If the disk refuses, it logs that and tries again."""

    def __init__(self, metrics: NodeMetrics, disk: Disk, directory: str, interval_ms: int) -> None:
        self._metrics = metrics
        self._disk = disk
        self._path = join(directory, METRICS_FILE)
        self._interval_s = interval_ms / 1000
        self._failure = ""

    async def run(self) -> None:
        """Run until cancelled, then remove the file."""
        try:
            while True:
                await self._write()
                await trio.sleep(self._interval_s)
        finally:
            try:
                self._disk.remove(self._path)
            except OSError:
                pass

    async def _write(self) -> None:
        try:
            await self._disk.replace_aside(self._path, self._metrics.exposition(), mode=READABLE_MODE)
        except OSError as error:
            if str(error) != self._failure:
                self._failure = str(error)
                log.warning("metrics not written", path=self._path, reason=str(error))
        else:
            self._failure = ""


@attrs.frozen
class MetricsRead:
    """The contents of a metrics file."""

    node_id: int
    collected_s: float
    """Seconds since 1970, by the node's wall clock."""
    values: dict[str, float | str]
    """By KIP name, in the order of `METRICS`."""


def read_metrics(path: str, data: bytes) -> MetricsRead:
    """Read a node's file.  Raises StorageError for anything else."""
    try:
        found = _samples(data.decode())
        [(collected_s, node)] = [(value, node) for name, value, node in found if name == COLLECTED_AT]
        values: dict[str, float | str] = {}
        for name, value, _ in found:
            is_least = name not in _WITH_DIMENSIONS or float(value) <= float(values.get(name, value))
            if is_least:
                values[name] = value
        values.pop(COLLECTED_AT)
        return MetricsRead(int(node), float(collected_s), values)
    except (ValueError, KeyError, IndexError) as error:
        raise StorageError(f"{path}: not the metrics of a node: {error or 'unreadable'}") from error


def _samples(text: str) -> list[tuple[str, float | str, str]]:
    """KIP name, value and node id of the known samples; others may belong to an embedding application."""
    from prometheus_client.parser import text_string_to_metric_families

    found: list[tuple[str, float | str, str]] = []
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            metric = _BY_PROMETHEUS_NAME.get(sample.name)
            if metric is not None:
                value = sample.labels[metric.label] if metric.label else _number(sample.value)
                found.append((metric.name, value, sample.labels[NODE_LABEL]))
            elif sample.name == COLLECTED_AT:
                found.append((COLLECTED_AT, sample.value, sample.labels[NODE_LABEL]))
    return found


def _number(value: float) -> float:
    return int(value) if float(value).is_integer() else value
