"""The two servers that are asked: etcd, and a node of ours with a gateway."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from harness.etcd import EtcdProcess
from harness.ports import free_ports
from harness.quorum import Quorum
from harness.waiting import WAIT_SECONDS, wait_until
from scripts.etcd_differences.requests import Ask

ANSWER_S = 30.0


@attrs.frozen
class Answer:
    """The status of HTTP, and what came: messages, or a text if they are none."""

    status: int
    content: Any


class Peer:
    """One server.  Requests that have one answer go through one connection."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self._port = port
        self._connection = self._connected()

    def _connected(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self._port, timeout=ANSWER_S)

    def ask(self, ask: Ask) -> Answer:
        """Raises OSError and HTTPException."""
        try:
            self._connection.request(ask.method, ask.path, ask.body, {"Content-Type": "application/json"})
            response = self._connection.getresponse()
            return Answer(response.status, _content(response.read()))
        except BaseException:
            self._connection.close()
            raise

    def is_ready(self) -> bool:
        """Whether it makes linearizable reads."""
        try:
            return self.ask(Ask("/health", method="GET")).status == 200
        except (OSError, http.client.HTTPException):
            return False

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def watching(self, ask: Ask) -> Iterator[Watching]:
        """The answers to a stream of requests, as they come."""
        connection = self._connected()
        watching = Watching(connection, ask)
        try:
            yield watching
        finally:
            watching.close()


class Watching:
    """Reads one stream in a thread of its own, which may wait for its head for ever."""

    def __init__(self, connection: http.client.HTTPConnection, ask: Ask) -> None:
        self._connection = connection
        self._lines: queue.Queue[bytes] = queue.Queue()
        self.messages: list[dict[str, Any]] = []
        connection.request(ask.method, ask.path, ask.body, {"Content-Type": "application/json"})
        self._socket = connection.sock
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            response = self._connection.getresponse()
            while line := response.readline():
                self._lines.put(line)
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass  # it was closed

    def take(self, seconds: float) -> bool:
        """Wait for the next message.  Returns whether one came."""
        try:
            self.messages.append(json.loads(self._lines.get(timeout=seconds)))
        except queue.Empty:
            return False
        return True

    def close(self) -> None:
        try:
            self._socket.shutdown(2)
        except OSError:
            pass
        self._connection.close()


def _content(body: bytes) -> Any:
    try:
        return [json.loads(line) for line in body.splitlines()]
    except ValueError:
        return body.decode(errors="replace").strip()


@contextmanager
def both(program: Path, directory: Path) -> Iterator[tuple[Peer, Peer]]:
    """A fresh gateway of ours, and a fresh etcd."""
    (directory / "ours").mkdir(parents=True)
    [port] = free_ports(1)
    settings = {
        "kraft.state.machine": "kv",
        "kraft.kv.listener": f"HTTP://127.0.0.1:{port}",
        "kraft.kv.keep.revisions": "0",
    }
    quorum = Quorum(directory / "ours", voters=1, settings=settings)
    with EtcdProcess(program, directory / "etcd") as etcd:
        ours, theirs = Peer("ours", port), Peer("etcd", etcd.port)
        try:
            quorum.start()
            wait_until("the gateway answers", ours.is_ready, WAIT_SECONDS)
            wait_until("etcd answers", theirs.is_ready, WAIT_SECONDS)
            yield ours, theirs
        finally:
            ours.close()
            theirs.close()
            quorum.kill_all()
