"""A node's metrics as a collector of prometheus_client."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from kraft_trio.metrics.text_format import Family

__all__ = ["generate_latest", "generate_open_metrics", "registry_of"]


def generate_open_metrics(registry: CollectorRegistry) -> bytes:
    text: bytes = openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    return text


def registry_of(collect: Callable[[], Iterable[Family]]) -> CollectorRegistry:
    """A registry of its own, to which an application may add collectors."""
    registry = CollectorRegistry()
    registry.register(_Families(collect))
    return registry


class _Families(Collector):
    def __init__(self, collect: Callable[[], Iterable[Family]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[GaugeMetricFamily]:
        """Called by the registry, also once to detect duplicate names."""
        for family in self._collect():
            names = sorted(family.samples[0].labels) if family.samples else []
            gauge = GaugeMetricFamily(family.name, family.meaning, labels=names)
            for sample in family.samples:
                gauge.add_metric([sample.labels[name] for name in names], sample.value)
            yield gauge
