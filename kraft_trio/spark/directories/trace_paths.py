"""Finds trace files from paths, globs and URLs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import attrs

from kraft_trio.errors import ConfigError
from kraft_trio.spark.directories.files import files_of, join
from kraft_trio.spark.file_system import Files, printable


@attrs.frozen
class TraceFile:
    """A file to read, or a path that leads to none."""

    path: str
    size: int = 0
    """Size in bytes when it was listed."""
    problem: str | None = None
    """Why there is nothing to read."""


def trace_files(path: str, paths: str = "") -> list[TraceFile]:
    """The files of a path or glob and of a JSON list of them; see `files_of_traces`."""
    return files_of_traces([*([path] if path else []), *(json.loads(paths) if paths else [])])


def files_of_traces(paths: Iterable[str]) -> list[TraceFile]:
    """The files of paths and globs, sorted by name, each once.

    A directory means its files, except for names that begin with a dot or an underscore.  A path without a file is
    listed with its problem.  Raises ConfigError if no path leads to a file, or a URL needs a package that is missing.
    """
    found = {file.path: file for pattern in paths for file in _found(pattern)}
    if all(file.problem for file in found.values()):
        problems = "; ".join(f"{file.path}: {file.problem}" for file in found.values())
        raise ConfigError(f"no trace among the paths: {printable(problems) or 'no path is given'}")
    return [found[name] for name in sorted(found)]


def grouped(files: Iterable[TraceFile], most_bytes: int) -> Iterator[tuple[TraceFile, ...]]:
    """Group neighbouring files up to this many bytes; a larger file stays alone."""
    group: list[TraceFile] = []
    size = 0
    for file in files:
        if group and size + file.size > most_bytes:
            yield tuple(group)
            group, size = [], 0
        group.append(file)
        size += file.size
    if group:
        yield tuple(group)


def _found(pattern: str) -> Iterator[TraceFile]:
    files = files_of(pattern)
    paths = files.expand(pattern)
    if not paths:
        yield TraceFile(pattern, problem="nothing has such a name")
    for path in paths:
        try:
            yield from _files_at(files, path)
        except OSError as error:
            yield TraceFile(path, problem=f"cannot be read: {error.strerror or error}")


def _files_at(files: Files, path: str) -> Iterator[TraceFile]:
    entry = files.entry(path)
    if not entry.is_directory:
        yield TraceFile(path, entry.size)
        return
    inside = [
        entry for entry in files.entries(path) if not entry.is_directory and not entry.name.startswith((".", "_"))
    ]
    if not inside:
        yield TraceFile(path, problem="a directory without files; expected traces in it")
    for entry in inside:
        yield TraceFile(join(path, entry.name), entry.size)
