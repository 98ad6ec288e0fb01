"""The exit codes of `kraft`: docs/reference/command-line.md#exit-codes has the table."""

from __future__ import annotations

from typing import Final

from kraft_trio.errors import AddressError, ConfigError, KraftError, StorageError, UnavailableDirectoryError

CONFIGURATION: Final = 5
DIRECTORY: Final = 6
_MAY_PASS: Final = (AddressError, UnavailableDirectoryError)
"""A node that ends with one of these may start the next time."""


def exit_code(error: BaseException, *, of_node: bool) -> int:
    """The code for an error that ends a command.

    A supervisor restarts a node, so the code of a node also tells where a restart helps as little as it harms.
    """
    if not isinstance(error, KraftError):
        return 1
    if of_node and error.exit_code == 1 and not isinstance(error, _MAY_PASS):
        if isinstance(error, ConfigError):
            return CONFIGURATION
        if isinstance(error, StorageError):
            return DIRECTORY
    return error.exit_code
