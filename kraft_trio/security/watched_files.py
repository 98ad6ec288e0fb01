"""Files about security that a running node reloads when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kraft_trio.errors import ConfigError


class WatchedFiles:
    """Some files that are read together.  While they cannot be used, what was read before stays in force."""

    def __init__(
        self,
        identity: Callable[[], object],
        read: Callable[[], None],
        *,
        taken: Callable[[], object],
        refused: Callable[[str], object],
    ) -> None:
        """Read the files.  Raises ConfigError.

        `identity` changes when the files change.  `read` takes the content over, or raises ConfigError and changes
        nothing.  Later, `taken` logs that it did, and `refused` why it did not.
        """
        self._identity = identity
        self._read = read
        self._taken = taken
        self._refused = refused
        self._seen = identity()
        read()

    def look(self) -> None:
        """Reload the files if they have changed, and log the outcome."""
        if self._identity() != self._seen:
            self.reload()

    def reload(self) -> None:
        """Reload the files, changed or not, and log the outcome."""
        self._seen = self._identity()
        try:
            self._read()
        except ConfigError as error:
            self._refused(str(error))
        else:
            self._taken()


def look_at_all(files: Iterable[WatchedFiles]) -> None:
    for one in files:
        one.look()


def reload_all(files: Iterable[WatchedFiles]) -> None:
    for one in files:
        one.reload()
