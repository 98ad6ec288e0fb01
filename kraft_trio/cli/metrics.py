"""`kraft metrics`: prints the metrics file that a running node writes."""

from __future__ import annotations

import time

import click

from kraft_trio.cli.terminal.config_option import config_option, override_option, parse_overrides, read_config
from kraft_trio.cli.terminal.json_option import echo_json, json_option
from kraft_trio.cli.terminal.output import echo
from kraft_trio.config import NodeConfig
from kraft_trio.errors import StorageError
from kraft_trio.metrics.definitions import Metric, metrics_of
from kraft_trio.metrics.metrics_file import METRICS_FILE, MetricsRead, read_metrics
from kraft_trio.storage.disk.disk import join

_STALE_AFTER_INTERVALS = 3
_STALE_AFTER_AT_LEAST_S = 3.0


@click.command()
@config_option
@override_option
@click.option("--prometheus", is_flag=True, help="Print the file as it is, in Prometheus text format.")
@json_option
@click.pass_context
def metrics(
    context: click.Context, config_path: str, overrides: tuple[str, ...], prometheus: bool, as_json: bool
) -> None:
    """Print a running node's metrics, and their age.

    If the node has stopped writing them, the command prints the last ones and exits with 1: once they are older than
    three seconds and than three intervals of kraft.metrics.interval.ms.
    """
    if prometheus and as_json:
        raise click.UsageError("--prometheus and --json exclude each other", context)
    config = read_config(config_path, parse_overrides(overrides))
    path = join(config.metadata_log_dir, METRICS_FILE)
    data = _read(path, config)
    found = read_metrics(path, data)
    age_s = time.time() - found.collected_s
    if prometheus:
        echo(data.decode(errors="backslashreplace"), nl=False)
        echo(f"kraft: collected {age_s:.1f} s ago", err=True)
    elif as_json:
        echo_json({"nodeId": found.node_id, "ageSeconds": round(age_s, 3), "metrics": found.values})
    else:
        echo(f"Node {found.node_id}, {age_s:.1f} s ago\n\n{_table(metrics_of(config.process_roles), found)}")
    if age_s > max(_STALE_AFTER_AT_LEAST_S, _STALE_AFTER_INTERVALS * config.metrics_interval_ms / 1000):
        raise StorageError(f"{path}: {age_s:.0f} s old: the node is not running, or hangs")


def _read(path: str, config: NodeConfig) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        why = "the node is not running" if config.metrics_interval_ms else "kraft.metrics.interval.ms is 0"
        raise StorageError(f"{path}: there is no such file: {why}") from None


def _table(wanted: tuple[Metric, ...], found: MetricsRead) -> str:
    names = list(dict.fromkeys((metric.name, metric.unit) for metric in wanted))
    width = max(len(name) for name, _ in names)
    lines = []
    for name, unit in names:
        value = found.values.get(name)
        text = "-" if value is None else f"{_text(value)} {unit}".rstrip()
        lines.append(f"{name:<{width}}  {text}")
    return "\n".join(lines)


def _text(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
