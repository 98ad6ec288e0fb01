"""The command behind `scripts/story`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from scripts.common.modules import Modules
from scripts.common.run import keep_option, running
from scripts.common.verdict import Verdict
from scripts.stories import ALL_STORIES
from scripts.stories.node import StorySkipped
from scripts.stories.story import Story

MODULES = Modules("scripts.stories", ALL_STORIES)


@click.command(epilog=f"\b\n{MODULES.listing()}", context_settings={"max_content_width": 140})
@click.argument("names", nargs=-1, required=True, type=click.Choice([*ALL_STORIES, "all"]), metavar="NAME...")
@click.option("--step", is_flag=True, help="Wait for Enter before each command.")
@keep_option
def main(names: tuple[str, ...], step: bool, keep: Path | None) -> None:
    """Play user stories with real processes on this machine, command by command; `all` plays all of them."""
    before_command: Callable[[], object] = (lambda: click.pause("  [Enter]")) if step else (lambda: None)
    with running("story", "story", keep) as run:
        for name in ALL_STORIES if "all" in names else dict.fromkeys(names):
            home = run.home / name
            home.mkdir()
            run.say(f"{name}: {(MODULES[name].__doc__ or '').strip()}\n\nIn {home}:")
            run.judged(played(name, home, before_command))


def played(name: str, home: Path, before_command: Callable[[], object]) -> Verdict:
    """Play one story.  It stops its nodes in any case."""
    try:
        with Story(home, before_command=before_command) as story:
            MODULES[name].tell(story)
    except StorySkipped as reason:
        return Verdict(name, held=f"skipped: {reason}")
    except AssertionError as error:
        return Verdict(name, broken=(str(error),))
    return Verdict(name, held="came true; every node was stopped")


if __name__ == "__main__":
    main()
