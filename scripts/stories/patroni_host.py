"""One host of a Patroni cluster: a Patroni process, and the PostgreSQL server that it starts and watches."""

from __future__ import annotations

import functools
import http.client
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness.waiting import wait_until
from scripts.stories.node import StorySkipped

HOST: Final = "127.0.0.1"
DATABASE: Final = "postgres"
SCOPE: Final = "rows"
TTL_S: Final = 20
"""Patroni's smallest; its default is 30."""
LOOP_WAIT_S: Final = 2
RETRY_TIMEOUT_S: Final = 9
"""A loop and two retries fit into the TTL, as Patroni demands."""

_IS_ROOT = os.geteuid() == 0
_USER: Final = "postgres"
_AS_USER: dict[str, Any] = {"user": _USER, "group": _USER, "extra_groups": []} if _IS_ROOT else {}
"""PostgreSQL refuses to run as root."""

CONFIGURATION: Final = """\
scope: {scope}
name: {name}
etcd3:
  hosts: [{gateways}]
restapi:
  listen: {host}:{rest_port}
  connect_address: {host}:{rest_port}
bootstrap:
  dcs:
    ttl: {ttl}
    loop_wait: {loop_wait}
    retry_timeout: {retry_timeout}
    synchronous_mode: true
    postgresql:
      use_pg_rewind: true
      parameters: {{shared_buffers: 16MB, max_connections: 30}}
  initdb:
    - encoding: UTF8
    - locale: C
    - data-checksums
postgresql:
  listen: {host}:{port}
  connect_address: {host}:{port}
  bin_dir: {programs}
  data_dir: {data}
  parameters: {{unix_socket_directories: '{directory}'}}
  authentication:
    superuser: {{username: postgres}}
    replication: {{username: replicator}}
  pg_hba:
    - local all all trust
    - host all all {host}/32 trust
    - host replication all {host}/32 trust
"""


class PatroniHost:
    """A host, whose directory belongs to the user that runs PostgreSQL."""

    def __init__(self, name: str, home: Path, directory: Path, port: int, rest_port: int) -> None:
        """The configuration and the log are in `home`; `directory` is for PostgreSQL, and must exist."""
        self.name = name
        self.port = port
        self.rest_port = rest_port
        self.configuration = home / f"{name}.yml"
        self.log = home / f"{name}.log"
        self.directory = directory
        self._data = directory / "data"
        self._patroni: subprocess.Popen[bytes] | None = None
        if _IS_ROOT:
            shutil.chown(directory, _USER, _USER)

    def __str__(self) -> str:
        return f"host {self.name}"

    def configure(self, gateways: Sequence[str]) -> str:
        """Write the configuration, and return it."""
        text = CONFIGURATION.format(
            scope=SCOPE,
            name=self.name,
            gateways=", ".join(f"'{gateway}'" for gateway in gateways),
            host=HOST,
            rest_port=self.rest_port,
            port=self.port,
            ttl=TTL_S,
            loop_wait=LOOP_WAIT_S,
            retry_timeout=RETRY_TIMEOUT_S,
            programs=postgresql_programs(),
            data=self._data,
            directory=self.directory,
        )
        self.configuration.write_text(text)
        # Patroni's modules set the umask of a process that imports them.
        Path(shutil.copy(self.configuration, self.directory)).chmod(0o644)
        return text

    # Processes

    @property
    def pid(self) -> int:
        assert self._patroni is not None
        return self._patroni.pid

    def start(self) -> None:
        """Start Patroni, which starts PostgreSQL."""
        with self.log.open("ab") as log:
            self._patroni = subprocess.Popen(
                [_patroni_programs() / "patroni", self.directory / self.configuration.name],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env={**os.environ, "HOME": str(self.directory)},
                start_new_session=True,
                **_AS_USER,
            )

    def pids(self) -> list[int]:
        """The processes of the host that run: Patroni first, then the server and its processes."""
        is_running = self._patroni is not None and self._patroni.poll() is None
        return [*([self.pid] if is_running else []), *self._postgresql_pids()]

    def _postgresql_pids(self) -> list[int]:
        """The server and its processes, if the server runs."""
        try:
            server = int((self._data / "postmaster.pid").read_text().split()[0])
            # The file survives a kill, and by then another process may have the id.
            if Path(f"/proc/{server}/cwd").resolve() != self._data:
                return []
            children = Path(f"/proc/{server}/task/{server}/children").read_text().split()
        except (OSError, ValueError, IndexError):
            return []
        return [server, *map(int, children)]

    def kill(self) -> None:
        """Send SIGKILL to all processes of the host, as if its machine were gone, and wait for their end."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self._patroni is not None:
            self._patroni.wait()
        wait_until(f"PostgreSQL of {self} is gone", lambda: not self._postgresql_pids())

    def stop(self, seconds: float) -> None:
        """Ask Patroni to stop itself and PostgreSQL; kill what is left after `seconds`."""
        if self._patroni is not None and self._patroni.poll() is None:
            self._patroni.terminate()
            try:
                self._patroni.wait(seconds)
            except subprocess.TimeoutExpired:
                pass
        self.kill()

    # Asking

    def cluster(self) -> dict[str, dict[str, Any]]:
        """The members by name, as this Patroni reads them from the quorum; empty if it does not answer."""
        return {member["name"]: member for member in self._get("/cluster").get("members", [])}

    def dcs_last_seen(self) -> int:
        """When this Patroni last reached the quorum, in seconds since 1970; 0 if it does not answer."""
        return int(self._get("/patroni").get("dcs_last_seen", 0))

    def _get(self, path: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(HOST, self.rest_port, timeout=5)
        try:
            connection.request("GET", path)
            answer: dict[str, Any] = json.loads(connection.getresponse().read())
            return answer
        except (OSError, ValueError, http.client.HTTPException):
            return {}
        finally:
            connection.close()

    def patronictl(self, *arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a patronictl command with this host's configuration."""
        return subprocess.run(
            [_patroni_programs() / "patronictl", "-c", self.configuration, *arguments],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


def check_programs() -> None:
    """Raises StorySkipped if a program or package that the story needs is absent or cannot be run."""
    for module in ("psycopg2", "httptools"):
        if importlib.util.find_spec(module) is None:
            raise StorySkipped(f"{module} is not installed (pip install 'patroni[etcd3]' psycopg2-binary)")
    postgresql_programs()
    _patroni_programs()


@functools.cache
def _patroni_programs() -> Path:
    """The directory of Patroni's programs: this environment's, or one on PATH.  Raises StorySkipped."""
    refusals = []
    for directory in (str(Path(sys.executable).parent), *os.get_exec_path()):
        program = Path(directory) / "patroni"
        if program.exists():
            try:
                subprocess.run([program, "--version"], capture_output=True, check=True, cwd="/", **_AS_USER)
            except (OSError, subprocess.CalledProcessError) as error:
                refusals.append(str(error))
            else:
                return program.parent
    user = f"user {_USER}" if _IS_ROOT else "this user"
    raise StorySkipped(
        f"{user} has no Patroni (pip install 'patroni[etcd3]' psycopg2-binary): {'; '.join(refusals) or 'absent'}"
    )


def postgresql_programs() -> Path:
    """The directory of PostgreSQL's programs, as Debian or PATH has it.  Raises StorySkipped."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    on_path = shutil.which("postgres")
    if not found and on_path is None:
        raise StorySkipped("PostgreSQL is not installed (apt install postgresql)")
    return found[-1].parent if found else Path(str(on_path)).resolve().parent


def configuration_shown(text: str) -> str:
    """The part of a configuration that points Patroni at the quorum."""
    return textwrap.dedent(text[: text.index("restapi:")])
