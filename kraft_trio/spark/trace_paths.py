"""From paths, globs and URLs to the files of traces, and how they are opened."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterable, Iterator
from typing import IO, Any, cast

import attrs

from kraft_trio.errors import ConfigError


@attrs.frozen
class TraceFile:
    """One file to read, or a path that leads to none."""

    path: str
    size: int = 0
    """In bytes, when it was looked at."""
    problem: str | None = None
    """Why there is nothing to be read."""


def trace_files(text: str) -> list[TraceFile]:
    """The files of a path or glob, or of a JSON list of them, in the order of their names, each once.

    A directory stands for the files in it, but for those whose name begins with a dot or an underscore.  A path that
    leads nowhere, and a directory without files, is in the list with its problem.  URLs need fsspec.  Raises
    ConfigError where none is given, and for a URL that cannot be used.
    """
    paths = json.loads(text) if text.startswith("[") else [text] if text else []
    if not paths:
        raise ConfigError("format kraft-trace: no path; expected load(PATH), a file, a directory or a glob")
    found = {file.path: file for path in paths for file in _found(path)}
    return [found[path] for path in sorted(found)]


def grouped(files: Iterable[TraceFile], most_bytes: int) -> Iterator[tuple[TraceFile, ...]]:
    """Neighbours together up to that many bytes; a larger one by itself."""
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


def opened(path: str) -> IO[bytes]:
    """The file, open for reading.  Raises OSError; ConfigError for a URL that cannot be used."""
    if _is_url(path):
        return cast(IO[bytes], _fsspec(path).open(path, "rb").open())
    return open(path, "rb")


def _found(path: str) -> list[TraceFile]:
    entries = _of_url(path) if _is_url(path) else _of_disk(path.removeprefix("file:"))
    return entries or [TraceFile(path, problem="no such file; expected a trace, or a directory or glob of traces")]


def _of_disk(path: str) -> list[TraceFile]:
    names = [path] if os.path.lexists(path) else glob.glob(path, recursive=True)
    files: list[TraceFile] = []
    for name in names:
        inside = [name]
        if os.path.isdir(name):
            with os.scandir(name) as entries:
                inside = [entry.path for entry in entries if entry.is_file() and _is_shown(entry.name)]
            if not inside:
                files.append(TraceFile(name, problem="a directory without files; expected traces in it"))
        files += [TraceFile(file, os.path.getsize(file) if os.path.exists(file) else 0) for file in inside]
    return files


def _of_url(path: str) -> list[TraceFile]:
    file_system, _ = _fsspec(path).core.url_to_fs(path)
    files: list[TraceFile] = []
    for name in file_system.glob(path):
        inside = [name]
        if file_system.isdir(name):
            inside = [
                entry["name"]
                for entry in file_system.ls(name, detail=True)
                if entry["type"] == "file" and _is_shown(os.path.basename(entry["name"]))
            ]
        files += [TraceFile(file_system.unstrip_protocol(file), file_system.size(file) or 0) for file in inside]
    return files


def _is_shown(name: str) -> bool:
    return not name.startswith((".", "_"))


def _is_url(path: str) -> bool:
    return "://" in path and not path.startswith("file://")


def _fsspec(path: str) -> Any:
    try:
        import fsspec
    except ImportError:
        raise ConfigError(f"format kraft-trace: {path}: expected a path; URLs need the package fsspec") from None
    return fsspec
