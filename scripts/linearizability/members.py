"""The processes of a quorum whose nodes are embedded, each with a connection for its clients."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import trio

from harness.node import NodeProcess
from harness.quorum import Quorum
from scripts.linearizability.clocks import DRIFT_PPM
from scripts.linearizability.member import run_member
from scripts.linearizability.surroundings import Surroundings

_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["scripts.linearizability.real_run"])
"""Members are forked from a process that has imported everything, because each import costs more than the rest."""


SNAPSHOTS: Final = {
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.log.segment.bytes": "20000",
    "metadata.max.retention.bytes": "0",
}
"""The configuration with which nodes take a snapshot every few seconds."""
LEASES: Final = {"kraft.read.lease.max.clock.drift.ppm": str(DRIFT_PPM)}
"""The configuration with which leaders answer reads by leases."""


class Gone(Exception):
    """The member's process has ended, so nobody knows what became of a request to it."""


class AnyMember(ABC):
    """What faults need of a node, and of the process that it runs in, if any.

    Methods that return a truth value tell whether they have had an effect.
    """

    def __init__(self, node: NodeProcess, surroundings: Surroundings) -> None:
        self.id = node.id
        self.is_paused = False
        self._node = node
        self._surroundings = surroundings

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    @property
    @abstractmethod
    def _pid(self) -> int: ...

    @abstractmethod
    def start(self, overrides: Mapping[str, str]) -> None:
        """Start a process, which opens the node's directory."""

    @abstractmethod
    async def kill(self) -> bool:
        """Send SIGKILL and wait for the end; return whether that has ended the process."""

    @abstractmethod
    async def leader_id(self) -> int | None:
        """The leader that the node knows, if any."""

    @abstractmethod
    async def transfer_leadership(self, to: int) -> bool: ...

    @abstractmethod
    async def resign(self) -> bool: ...

    def pause(self) -> None:
        os.kill(self._pid, signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        os.kill(self._pid, signal.SIGCONT)
        self.is_paused = False

    @property
    def has_stopped(self) -> bool:
        """Whether a signal has stopped the process."""
        state = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state == "T"


class Member(AnyMember):
    """A node that is embedded in a process with a connection for its clients."""

    def __init__(self, node: NodeProcess, surroundings: Surroundings, nursery: trio.Nursery) -> None:
        super().__init__(node, surroundings)
        self._nursery = nursery
        self._numbers = itertools.count()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._stream: trio.SocketStream | None = None
        self._sending = trio.Lock()
        self._answers: dict[int, trio.MemorySendChannel[dict[str, Any]]] = {}

    @property
    def is_running(self) -> bool:
        return self._stream is not None

    def start(self, overrides: Mapping[str, str]) -> None:
        """What is asked of it before it has opened the directory waits."""
        assert not self.is_running
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = (str(self._node.properties), dict(overrides), self._surroundings, theirs, str(self._node.log))
            self._process = _PROCESSES.Process(target=run_member, args=arguments, daemon=True)
            self._process.start()
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(ours))
        self._nursery.start_soon(self._receive, self._stream)

    async def kill(self) -> bool:
        assert self._process is not None
        self.is_paused = False
        self._process.kill()
        await trio.to_thread.run_sync(self._process.join)
        await self._lost()
        return self._process.exitcode == -signal.SIGKILL

    @property
    def _pid(self) -> int:
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    async def ask(self, within_s: float, **request: object) -> dict[str, Any]:
        """The member's answer.  Raises Gone, and trio.TooSlowError without an answer soon after that time."""
        number = next(self._numbers)
        send, receive = trio.open_memory_channel[dict[str, Any]](1)
        self._answers[number] = send
        line = json.dumps({"number": number, "within_s": within_s, **request}).encode() + b"\n"
        try:
            with trio.fail_after(within_s * 1.5):
                async with self._sending:
                    if self._stream is None:
                        raise Gone
                    await self._stream.send_all(line)
                return await receive.receive()
        except (trio.EndOfChannel, trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Gone from error
        finally:
            self._answers.pop(number, None)

    async def leader_id(self) -> int | None:
        try:
            found: int | None = (await self.ask(2.0, do="leader"))["result"]
        except (Gone, trio.TooSlowError):
            return None
        return found

    async def transfer_leadership(self, to: int) -> bool:
        return await self._try(do="transfer", to=to)

    async def resign(self) -> bool:
        return await self._try(do="resign")

    async def _try(self, **request: object) -> bool:
        try:
            answer = await self.ask(10.0, **request)
        except (Gone, trio.TooSlowError):
            return False
        return bool(answer["outcome"] == "ok")

    async def _receive(self, stream: trio.SocketStream) -> None:
        pending = b""
        try:
            async for data in stream:
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    answer = json.loads(line)
                    waiting = self._answers.get(answer["number"])
                    if waiting is not None:
                        waiting.send_nowait(answer)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if stream is self._stream:
            await self._lost()

    async def _lost(self) -> None:
        stream, self._stream = self._stream, None
        for waiting in self._answers.values():
            waiting.close()
        if stream is not None:
            await trio.aclose_forcefully(stream)


M = TypeVar("M", bound=AnyMember)


class Members(Generic[M]):
    """The nodes of a formatted quorum."""

    def __init__(self, quorum: Quorum, make: Callable[[NodeProcess], M]) -> None:
        self.quorum = quorum
        self.by_id = {node.id: make(node) for node in self.quorum.nodes.values()}
        self.overrides: dict[str, str] = {}
        """The configuration of the processes that are started from now on."""

    @property
    def running(self) -> list[M]:
        return [member for member in self.by_id.values() if member.is_running]

    def start_all(self) -> None:
        for member in self.by_id.values():
            if not member.is_running:
                member.start(self.overrides)

    async def kill_all(self) -> bool:
        return all([await member.kill() for member in self.running])

    async def leader(self, *, besides: M | None = None) -> M:
        """A running member, other than `besides`, that a member takes for the leader; it may have been replaced."""
        while True:
            for member in self.running:
                if not member.is_paused:
                    leader = self.by_id.get(await member.leader_id() or 0)
                    if leader is not None and leader is not besides and leader.is_running:
                        return leader
            await trio.sleep(0.05)
