"""An environment with a wheel and what it declares, made without network: links to the packages of this environment."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ALLOWED_SECONDS = 600


def build(source: Path, folder: Path, *, umask: int = -1, **environment: str) -> tuple[Path, Path]:
    """The source distribution and the wheel of a tree, built by what `scripts/setup` installed."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(
        command, cwd=source, env=_clean({**os.environ, **environment}), umask=umask, capture_output=True, check=True
    )
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return sdist, wheel


def unpacked(wheel: Path, folder: Path) -> Distribution:
    """The wheel's content in a folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    [information] = folder.glob("*.dist-info")
    return PathDistribution(information)


class Environment:
    """A virtual environment that sees a distribution, what it requires with some of its extras, and nothing else."""

    def __init__(self, folder: Path, own: Distribution, extras: Sequence[str] = ()) -> None:
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        [site_packages] = folder.glob("lib/python*/site-packages")
        for one in _with_requirements(own, extras):
            for top in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
                (site_packages / top).symlink_to(Path(str(one.locate_file(top))))
        for point in own.entry_points.select(group="console_scripts"):
            program = folder / "bin" / point.name
            calls = f"from {point.module} import {point.attr}\nif __name__ == '__main__':\n    {point.attr}()\n"
            program.write_text(f"#!{self.python}\n{calls}")
            program.chmod(0o755)

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment; any exit code is returned."""
        program, *arguments = map(str, command)
        return subprocess.run(
            [self.python.with_name(program), *arguments],
            cwd=cwd,
            env=_clean(os.environ),
            capture_output=True,
            text=True,
            timeout=ALLOWED_SECONDS,
            check=False,
        )


def declared(own: Distribution, extras: Sequence[str]) -> list[Requirement]:
    """What it requires here with these extras."""
    lines = map(Requirement, own.requires or ())
    return [
        line
        for line in lines
        if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]


def _with_requirements(own: Distribution, extras: Sequence[str]) -> Iterator[Distribution]:
    yield own
    known: set[tuple[str, frozenset[str]]] = set()
    found: set[str] = set()
    wanted = declared(own, extras)
    while wanted:
        line = wanted.pop()
        one = distribution(line.name)
        assert line.specifier.contains(one.version), f"{line}, but {one.version} is here"
        if one.name not in found:
            found.add(one.name)
            yield one
        if (key := (one.name, frozenset(line.extras))) not in known:
            known.add(key)
            wanted += declared(one, sorted(line.extras))


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Without this environment's own folders, and with cached bytecode, which the processes share."""
    return {name: value for name, value in environment.items() if name not in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")}
