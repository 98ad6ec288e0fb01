"""The program etcd: that of ETCD, the newest that scripts/get-etcd has built, or the one on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from harness.ports import free_ports
from harness.waiting import WAIT_SECONDS

BUILT = Path(__file__).parents[1] / ".etcd"
"""Where scripts/get-etcd puts each version."""


def etcd_program() -> Path | None:
    """The program; None if there is none."""
    if named := os.environ.get("ETCD"):
        return Path(named).absolute()
    built = [path for path in BUILT.glob("*/etcd") if not path.parent.name.startswith(".")]
    if built:
        return max(built, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)])
    found = shutil.which("etcd")
    return None if found is None else Path(found)


def etcd_version(program: Path) -> str:
    """Its version, as in 3.7.3.  Raises OSError and CalledProcessError."""
    output = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, timeout=WAIT_SECONDS)
    return output.stdout.splitlines()[0].split(":")[1].strip()


class EtcdProcess:
    """One member with its defaults, on loopback.  Runs in the block."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._directory = directory
        self.port, self._peer_port = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> EtcdProcess:
        self._directory.mkdir(parents=True, exist_ok=True)
        client, peer = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self._peer_port}"
        command = [
            *(str(self._program), "--name", "m1", "--data-dir", str(self._directory / "data"), "--log-level", "warn"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"m1={peer}"),
        ]
        with (self._directory / "etcd.out").open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None
