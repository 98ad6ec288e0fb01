"""A client of PostgreSQL that inserts rows while a story continues, and one that watches a primary."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Final, Self

from scripts.common.background import Background
from scripts.stories.node import StoryError
from scripts.stories.patroni_host import DATABASE, HOST, PatroniHost
from scripts.stories.service import Append, Service, service_during

PAUSE_S: Final = 0.02
LOOK_EVERY_S: Final = 0.1


def connect(hosts: Sequence[PatroniHost], *, is_primary: bool) -> Any:
    """Connect to the first of these servers, or to the one that takes writes.  Raises psycopg2.Error.

    There is no statement timeout: a commit that is cancelled while it waits for the standby is acknowledged, and lost
    in a failover.
    """
    connection = importlib.import_module("psycopg2").connect(
        host=",".join(HOST for _ in hosts),
        port=",".join(str(host.port) for host in hosts),
        user="postgres",
        dbname=DATABASE,
        connect_timeout=5,
        target_session_attrs="read-write" if is_primary else "any",
    )
    connection.autocommit = True
    return connection


class RowWriter(Background):
    """Inserts rows one at a time in its own thread, into the server that takes writes."""

    def __init__(self, hosts: Sequence[PatroniHost]) -> None:
        super().__init__("row writer")
        self._hosts = tuple(hosts)
        self._error_class: type[Exception] = importlib.import_module("psycopg2").Error
        self._appends: list[Append] = []
        self.acknowledged: list[int] = []
        self.unknown = 0
        """Rows that were sent and neither acknowledged nor refused."""

    def start(self) -> Self:
        with closing(connect(self._hosts, is_primary=True)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE TABLE rows (number bigint PRIMARY KEY)")
        return super().start()

    def stop(self) -> bool:
        """Raises StoryError if the writer hangs."""
        if not super().stop():
            raise StoryError(f"the writer waits for an answer after row {self.acknowledged[-1:]}")
        return True

    def service(self, began_s: float) -> Service:
        """The service since then."""
        return service_during(tuple(self._appends), began_s, time.monotonic())

    def has_written_since(self, moment_s: float) -> bool:
        """Whether a row that was sent after that moment is acknowledged."""
        return bool(self._appends) and self._appends[-1].sent_s > moment_s

    def check(self, host: PatroniHost) -> int:
        """Count the rows of a server.  Raises StoryError if it lacks an acknowledged one."""
        with closing(connect([host], is_primary=False)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT number FROM rows")
            found = {number for (number,) in cursor.fetchall()}
        lost = set(self.acknowledged) - found
        if lost:
            raise StoryError(f"{len(lost)} acknowledged rows are lost on {host}, the first is {min(lost)}")
        return len(found)

    def run(self) -> None:
        number = 0
        connection = None
        while not self.stopping.wait(PAUSE_S):
            try:
                connection = connection or connect(self._hosts, is_primary=True)
            except self._error_class:
                continue  # no server takes writes
            number += 1
            sent_s = time.monotonic()
            try:
                with connection.cursor() as cursor:
                    cursor.execute("INSERT INTO rows VALUES (%s)", (number,))
            except self._error_class:
                self.unknown += 1
                connection.close()
                connection = None
            else:
                self._appends.append(Append(sent_s, time.monotonic()))
                self.acknowledged.append(number)
        if connection is not None:
            connection.close()


class PrimaryWatch(Background):
    """Looks again and again whether a server still is the primary that it was: not in recovery, not restarted."""

    _QUERY = "SELECT pg_is_in_recovery(), pg_postmaster_start_time()::text, timeline_id FROM pg_control_checkpoint()"

    def __init__(self, host: PatroniHost) -> None:
        super().__init__("primary watch")
        self._host = host
        self._seen: set[tuple[bool, str, int]] = set()
        self.looks = 0

    def check(self) -> None:
        """Raises StoryError if the server has been anything but a primary, and always the same."""
        seen = self._seen.copy()
        if self.error is not None:
            raise StoryError(f"{self._host} was not there all the while: {self.error}") from self.error
        if len(seen) > 1 or any(is_in_recovery for is_in_recovery, _, _ in seen):
            raise StoryError(f"{self._host} did not stay primary: (in recovery, started, timeline) {seen}")

    def run(self) -> None:
        with closing(connect([self._host], is_primary=False)) as connection, connection.cursor() as cursor:
            while not self.stopping.wait(LOOK_EVERY_S):
                cursor.execute(self._QUERY)
                self._seen.add(cursor.fetchone())
                self.looks += 1
