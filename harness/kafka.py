"""Apache Kafka's jars and how to run them: those below KAFKA_HOME, or the newest that scripts/get-kafka got."""

from __future__ import annotations

import functools
import os
import re
import shutil
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Set
from pathlib import Path

GOT = Path(__file__).parents[1] / ".kafka"
"""Where scripts/get-kafka puts each version."""


def kafka_home() -> Path:
    """Return the folder of KAFKA_HOME; without that variable, of the newest version in `.kafka`.

    The folder need not exist: see `why_no_kafka`.
    """
    if named := os.environ.get("KAFKA_HOME"):
        return Path(named).absolute()
    found = [path for path in GOT.glob("*.*.*") if (path / "libs").is_dir() and not path.name.startswith(".")]
    return max(found, key=lambda path: [int(part) for part in re.findall(r"\d+", path.name)], default=GOT / "none")


HOME = kafka_home()
LIBRARIES = HOME / "libs"


def kafka_version() -> tuple[int, ...]:
    """Return the version that the jars name, as in (4, 1, 0); empty without Kafka."""
    for path in LIBRARIES.glob("kafka-raft-*.jar"):
        if found := re.match(r"kafka-raft-(\d+)\.(\d+)\.(\d+)", path.name):
            return tuple(map(int, found.groups()))
    return ()


def why_no_kafka(jar: str = "kafka_2.13", *, compiler: bool = False) -> str | None:
    """Say in one line why programs that need this jar cannot run here; None if they can.

    A program that is started from its source needs the JDK's `compiler` too.
    """
    for command in ("java", *(("javac",) if compiler else ())):
        if shutil.which(command) is None:
            return f"{command} is not on PATH"
    if any(LIBRARIES.glob(f"{jar}-[0-9]*.jar")):
        return None
    if "KAFKA_HOME" in os.environ:
        return f"KAFKA_HOME={os.environ['KAFKA_HOME']}: its libs/ has no {jar}"
    return "no Apache Kafka: run scripts/get-kafka, or let KAFKA_HOME name an unpacked one"


@functools.cache
def _classes() -> Mapping[str, Set[str]]:
    """Return the full names of Kafka's classes by their last part."""
    found: dict[str, set[str]] = defaultdict(set)
    for jar in LIBRARIES.glob("*.jar"):
        if jar.name.startswith(("kafka", "connect")):
            for entry in zipfile.ZipFile(jar).namelist():
                if entry.endswith(".class") and "$" not in entry:
                    name = entry.removesuffix(".class").replace("/", ".")
                    found[name.rpartition(".")[2]].add(name)
    return found


def class_name(name: str) -> str:
    """Return the full name that this version of Kafka has for a class: releases move classes to other packages."""
    if "/" in name:
        return name  # a source file
    candidates = _classes().get(name.rpartition(".")[2], set())
    if name in candidates or len(candidates) != 1:
        return name
    [moved] = candidates
    return moved


def adapted(source: str) -> str:
    """Return a Java source with the imports that this version of Kafka has."""
    return re.sub(r"(?<=^import )org[\w.]+(?=;$)", lambda found: class_name(found[0]), source, flags=re.MULTILINE)


QUICK = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"]
"""A JVM that lives for seconds starts sooner and takes half the processor time."""


def java(main: str, *arguments: str, heap: str = "512m", home: Path = HOME, classes: Path | None = None) -> list[str]:
    """Return the command that runs a class, or a source file, with Kafka's jars; it logs warnings to stderr.

    The class may have moved since: see `class_name`.  `home` may be that of another version that has it there.
    `classes` is a folder of further classes.
    """
    logging = []
    for name, key in (("log4j2.properties", "log4j2.configurationFile"), ("log4j.properties", "log4j.configuration")):
        if (home / "config" / name).exists():
            logging.append(f"-D{key}=file:{home / 'config' / name}")
    class_path = f"{classes}:{home / 'libs'}/*" if classes else f"{home / 'libs'}/*"
    return ["java", f"-Xmx{heap}", *QUICK, *logging, "-cp", class_path, class_name(main), *arguments]
