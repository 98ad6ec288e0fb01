"""The exit codes of `kraft`: docs/reference/command-line.md#exit-codes has the table."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from kraft_trio.errors import AddressError, ConfigError, KraftError, StorageError, UnavailableDirectoryError


class ExitCode(IntEnum):
    """All exit codes.  Those of errors are in their classes, as `exit_code`."""

    SUCCESS = 0
    FAILURE = 1
    USAGE = 2
    DISK_FAILED = 3
    DISK_FULL = 4
    CONFIGURATION = 5
    DIRECTORY = 6
    INTERRUPTED = 130
    READER_GONE = 141
    """As a shell tells of SIGPIPE, which Python ignores."""
    TERMINATED = 143
    """As a shell tells of SIGTERM, which ends a command at once."""


IN_HELP: Final = (
    "Exit codes: 0 success, 1 failure, 2 wrong usage, 3 a disk failed, 4 a disk is full, 5 a node's configuration, "
    "6 a node's directory, 130 interrupted, 141 nobody reads the output, 143 terminated."
)
_MAY_PASS: Final = (AddressError, UnavailableDirectoryError)
"""A node that ends with one of these may start the next time."""


def exit_code(error: BaseException, *, of_node: bool) -> int:
    """The code for an error that ends a command.

    A supervisor restarts a node, so the code of a node also tells where a restart helps as little as it harms.
    """
    if not isinstance(error, KraftError):
        return ExitCode.FAILURE
    if of_node and not isinstance(error, _MAY_PASS):
        if isinstance(error, ConfigError):
            return ExitCode.CONFIGURATION
        if isinstance(error, StorageError) and error.exit_code == ExitCode.FAILURE:
            return ExitCode.DIRECTORY
    return error.exit_code
