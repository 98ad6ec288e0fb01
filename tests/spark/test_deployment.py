"""Programs submitted where kraft-trio is not installed: docs/how-to/deploy-spark.md, as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import tarfile
import venv
from importlib.metadata import distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from packaging.requirements import Requirement

from tests.spark.conftest import SCRUBBED
from tests.spark.directories import make_node, numbered
from tests.spark.documents import program
from tests.spark.test_two_workers import home_with_room_to_work
from tests.support.programs import REPOSITORY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DOCUMENT = (REPOSITORY / "docs" / "how-to" / "deploy-spark.md").read_text(encoding="utf-8")
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))
OURS = ("kraft_trio", "pyspark_kraft.py", "pyspark_kraft_trace.py")
OF_SPARK = (
    "pyspark",
    "py4j",
    "numpy",
    "numpy.libs",
    "pandas",
    "pyarrow",
    "pytz",
    "dateutil",
    "six.py",
    "tzdata",
    "fsspec",
)
"""What the page says is there already."""
SHOWN_PATH = "/backups/"
ALLOWED_SECONDS = 1200

SUBMIT = """#!/bin/sh
exec "{home}/bin/spark-submit" --master "{master}" --conf spark.ui.enabled=false --conf spark.driver.memory=512m \
    --conf spark.executor.memory=512m --conf spark.driver.bindAddress=127.0.0.1 --conf spark.driver.host=127.0.0.1 "$@"
"""


def commands(heading: str) -> list[str]:
    section = DOCUMENT.partition(f"\n## {heading}\n")[2]
    found = re.search(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].splitlines()


class Machine:
    """A folder to submit from, with an environment whose packages are those of the tests, without kraft-trio."""

    def __init__(self, folder: Path, master: str, packages: Path) -> None:
        self.folder = folder
        environment = folder / "environment"
        venv.create(environment, with_pip=False, symlinks=True)
        [site] = environment.glob("lib/python*/site-packages")
        (site / "packages.pth").write_text(f"{packages}\n")
        self.python = environment / "bin" / "python"
        home = home_with_room_to_work(folder / "spark")
        submit = environment / "bin" / "spark-submit"
        submit.write_text(SUBMIT.format(home=home, master=master))
        submit.chmod(0o755)
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in SCRUBBED},
            "PATH": f"{submit.parent}{os.pathsep}{os.environ['PATH']}",
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_DIRS": str(folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYSPARK_PYTHON": str(self.python),
        }
        make_node(folder / "dirs", 1, (0, numbered(0, 50)))
        (folder / "dirs" / "node1").rename(folder / "dirs" / "node-1")
        (folder / "count.py").write_text(program("Spark on a cluster").text)

    def submit(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the page, on the directory that is here."""
        assert SHOWN_PATH in command
        return self.run(command.replace(SHOWN_PATH, f"{self.folder}/dirs/"))

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            shell=True,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=ALLOWED_SECONDS,
        )

    def check_it_lacks(self, *modules: str) -> None:
        for module in modules:
            assert "ModuleNotFoundError" in self.run(f"python -c 'import {module}'").stderr


def test_the_code_alone(spark: SparkSession, tmp_path: Path) -> None:
    """`spark` is there for its Java alone."""
    machine = Machine(tmp_path, "local[1]", SITE_PACKAGES)
    machine.check_it_lacks("kraft_trio", "pyspark_kraft")
    (tmp_path / "checkout").mkdir()
    for name in OURS:
        (tmp_path / "checkout" / name).symlink_to(REPOSITORY / name)
    make, submit = commands("With `--py-files`")
    made = machine.run(f"cd checkout && {make} && mv kraft.zip ..")
    assert made.returncode == 0, made.stderr
    shutil.rmtree(tmp_path / "checkout")
    ended = machine.submit(submit)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert "50 records" in ended.stdout.splitlines()


@pytest.mark.nightly
def test_an_archive_with_the_dependencies(spark: SparkSession, tmp_path: Path) -> None:
    """On a standalone master and a worker in processes of their own, whose Python has what Spark needs and no more."""
    packages = tmp_path / "packages"
    packages.mkdir()
    for name in OF_SPARK:
        (packages / name).symlink_to(SITE_PACKAGES / name)
    machine = Machine(tmp_path, "local-cluster[1,1,1024]", packages)
    machine.check_it_lacks("kraft_trio", "trio", "attrs", "crc32c")
    install, pack, submit = commands("With an archive")
    assert install == "pip install --target kraft kraft-trio"
    install_to(tmp_path / "kraft")
    assert machine.run(pack).returncode == 0
    ended = machine.submit(submit)
    assert ended.returncode == 0, ended.stderr[-4000:]
    assert "50 records" in ended.stdout.splitlines()
    with tarfile.open(tmp_path / "kraft.tar.gz") as archive:
        assert "./kraft_trio/spark/source.py" in archive.getnames()


def install_to(target: Path) -> None:
    """What `pip install --target` does, without a network: kraft-trio and all that it depends on."""
    target.mkdir()
    wanted, known = ["kraft-trio"], set()
    while wanted:
        name = wanted.pop()
        if name in known:
            continue
        known.add(name)
        found = distribution(name)
        lines = [Requirement(line) for line in found.requires or ()]
        wanted += [one.name for one in lines if one.marker is None or one.marker.evaluate({"extra": ""})]
        for top in {Path(str(file)).parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if (SITE_PACKAGES / top).is_dir():
                shutil.copytree(SITE_PACKAGES / top, target / top, dirs_exist_ok=True)
            else:
                shutil.copy(SITE_PACKAGES / top, target / top)
    (target / "_kraft_trio.pth").unlink(missing_ok=True)
    for name in OURS:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, target / name)
        else:
            shutil.copy(source, target / name)
