"""The schemas in Kafka's jars: the JSON files from which it generates its messages."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Iterator
from typing import Any

from harness.kafka import LIBRARIES


def schemas_in(jar: str, folder: str) -> Iterator[dict[str, Any]]:
    """The schemas of this version of Kafka that a jar has in a folder."""
    [path] = LIBRARIES.glob(f"{jar}-[0-9]*.jar")
    with zipfile.ZipFile(path) as files:
        for name in files.namelist():
            if name.startswith(folder) and name.endswith(".json"):
                text = re.sub(r"^\s*//.*$", "", files.read(name).decode(), flags=re.MULTILINE)
                yield json.loads(text)


def includes(versions: str, version: int) -> bool:
    first, _, last = versions.removesuffix("+").partition("-")
    return first != "none" and int(first) <= version and (versions.endswith("+") or version <= int(last or first))


def newest_version(schema: dict[str, Any]) -> int:
    first, _, last = schema["validVersions"].partition("-")
    return int(last or first)
