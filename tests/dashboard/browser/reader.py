"""Somebody who reads the page, and whose steps are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.waiting import WAIT_SECONDS

LIMIT_MS = WAIT_SECONDS * 1000


class Reader:
    """One page in a browser.  Clicks count as steps.  Looking and scrolling do not."""

    def __init__(self, context: Any, url: str) -> None:
        self._context = context
        self.steps = 0
        self.complaints: list[str] = []
        self.page = context.new_page()
        self.page.set_default_timeout(LIMIT_MS)
        self.page.on("console", lambda message: self._heard(message.type, message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(url)

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    def click(self, selector: str) -> None:
        """One step."""
        self.steps += 1
        self.page.click(selector)

    def sees(self, selector: str, text: str) -> str:
        """Wait until an element with that text is visible, and return the whole text of the first."""
        found = self.page.locator(selector).filter(has_text=text).first
        found.wait_for(state="visible")
        return str(found.inner_text())

    def is_in_view(self, selector: str) -> bool:
        """Whether the beginning of an element is on the screen."""
        box = self.page.locator(selector).first.bounding_box()
        size = self.page.viewport_size
        return box is not None and -1 <= box["y"] < size["height"]

    def drop(self, *paths: Path) -> None:
        """Open files, as one step."""
        self.steps += 1
        self.page.set_input_files("#file", [str(path) for path in paths])

    def close(self) -> None:
        self._context.close()
