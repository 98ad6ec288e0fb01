"""The command behind `scripts/metadata-sample`."""

from __future__ import annotations

from pathlib import Path

import click

from harness.kafka import kafka_version, why_no_kafka
from scripts.common.run import command, impossible, keep_option, running
from scripts.metadata_sample.shop import Shop


@command
@click.argument("target", metavar="DIR", type=click.Path(path_type=Path, file_okay=False))
@keep_option
def main(target: Path, keep: Path | None) -> None:
    """Run Apache Kafka's controllers and brokers, let things happen to them, and copy a controller's directory to DIR.

    DIR must not exist.  The how-to page of `kraft metadata` asks its questions of such a directory.  The exit code is 2
    without Apache Kafka.
    """
    if reason := why_no_kafka():
        impossible(reason)
    if target.exists():
        raise click.ClickException(f"{target}: exists, expected a new directory")
    with running("sample", "step", keep) as run:
        run.say(f"Kafka {'.'.join(map(str, kafka_version()))}")
        shop = Shop(run.home, run.say)
        try:
            shop.play()
        finally:
            shop.stop()
        size = shop.copy(target)
        run.say(f"{target}: {size:,} bytes of controller {shop.active}")


if __name__ == "__main__":
    main()
