"""The command behind `scripts/house`."""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

import click

from scripts.structure.documents import PATHS
from scripts.structure.house import house, table
from scripts.structure.package import PACKAGE

ROOT: Final = Path(__file__).parent.parent.parent


@click.command(context_settings={"max_content_width": 120})
@click.option("--before", metavar="COMMIT", help="Also measure this commit, and show both.")
@click.option("--list", "lists", is_flag=True, help="Also list what is counted.")
def main(before: str | None, lists: bool) -> None:
    """Measure the library: its size, what a request passes through, and what is said twice.

    The files that a request passes through are measured in the simulator.  Files that the node also runs while nothing
    is asked of it do not count.
    """
    old = None
    if before is not None:
        with tempfile.TemporaryDirectory(prefix="kraft-house-") as directory:
            _extract(before, Path(directory))
            old = house(Path(directory))
    now = house(ROOT)
    click.echo(table(now, old))
    if lists:
        for name, items in now.lists.items():
            click.echo("\n".join(["", f"{name}:", *(f"  {item}" for item in items)]))


def _extract(commit: str, directory: Path) -> None:
    """Write what is measured of a commit into a directory.  Raises UsageError for an unknown commit."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit, PACKAGE, *PATHS], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        raise click.UsageError(archive.stderr.decode().strip())
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
        # Python 3.11.2, which is Debian's, has no filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(directory)


if __name__ == "__main__":
    main()
