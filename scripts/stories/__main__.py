"""The command behind `scripts/story`."""

from __future__ import annotations

import importlib
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import click

from scripts.stories import ALL_STORIES
from scripts.stories.node import StorySkipped
from scripts.stories.story import Story


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"scripts.stories.{name.replace('-', '_')}")


def _listing() -> str:
    first_lines = {name: (_module(name).__doc__ or "").splitlines()[0] for name in ALL_STORIES}
    return "\b\n" + "\n".join(f"{name:<18}{line}" for name, line in first_lines.items())


@click.command(epilog=_listing(), context_settings={"max_content_width": 140})
@click.argument("names", nargs=-1, required=True, type=click.Choice([*ALL_STORIES, "all"]), metavar="NAME...")
@click.option("--step", is_flag=True, help="Wait for Enter before each command.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new directory to work in, kept afterwards.",
)
def main(names: tuple[str, ...], step: bool, keep: Path | None) -> None:
    """Play user stories with real processes on this machine, command by command; `all` plays all of them."""
    # A shell may start it in the background with SIGINT ignored, and a service manager stops it with SIGTERM.
    for stop in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stop, signal.default_int_handler)
    before_command: Callable[[], object] = _wait_for_enter if step else _go_on
    for name in ALL_STORIES if "all" in names else dict.fromkeys(names):
        with tempfile.TemporaryDirectory(prefix=f"kraft-{name}-") as directory:
            home = Path(directory) if keep is None else keep / name
            if keep is not None:
                home.mkdir(parents=True)
            _tell(name, home, before_command)


def _tell(name: str, home: Path, before_command: Callable[[], object]) -> None:
    module = _module(name)
    click.echo(f"### {name}: {(module.__doc__ or '').strip()}\n\nIn {home}:")
    story = Story(home, before_command=before_command)
    try:
        with story:
            module.tell(story)
    except StorySkipped as reason:
        click.echo(f"### {name}: skipped: {reason}\n")
        return
    except AssertionError as error:
        raise click.ClickException(f"{name}: {error}") from error
    except KeyboardInterrupt:
        sys.exit(130)
    click.echo(f"\n### {name}: the end; every node was stopped.\n")


def _wait_for_enter() -> None:
    click.pause("  [Enter]")


def _go_on() -> None:
    pass


if __name__ == "__main__":
    main()
