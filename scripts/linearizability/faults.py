"""What happens to the nodes while clients use them.  Each fault lasts until the clients have made progress."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

import attrs
import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.errors import KraftError
from kraft_trio.simulation.facts.history import LEASE_READ
from scripts.linearizability.clients import Recorder
from scripts.linearizability.members import LEASES, AnyMember, Members

PROGRESS: Final = 20
"""How many operations are acknowledged between two faults, and while one lasts."""
PROGRESS_S: Final = 60.0
"""That takes a second or two; the machine may be busy."""
VOTERS: Final = 3


class NoProgress(AssertionError):
    """The clients got no answers for too long."""


@attrs.define(eq=False)
class Faults:
    members: Members[Any]
    recorder: Recorder
    random: random.Random
    names: list[str] = attrs.field(factory=list)
    """What has happened so far."""

    async def cause(self, fault: Fault) -> None:
        self.names.append(fault.__name__.replace("_", "-"))
        await fault(self)
        await self.progress()

    async def progress(self) -> None:
        """Wait until clients have got answers.  Raises NoProgress."""
        wanted = self.recorder.acknowledged + PROGRESS
        await self._until(lambda: self.recorder.acknowledged >= wanted, f"{wanted} answers")

    async def lease_read(self) -> None:
        """Wait until a lease has answered a read.  Raises NoProgress."""
        await self._until(lambda: any(entry.kind == LEASE_READ for entry in self.recorder.entries), "a lease read")

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        with trio.move_on_after(PROGRESS_S) as limit:
            while not holds():
                await self.recorder.changed.park()
        if limit.cancelled_caught:
            raise NoProgress(f"{', '.join(self.names)}: not yet {what}, only {self.recorder.acknowledged} answers")

    async def kill_leader(self) -> None:
        await self._kill(await self.members.leader())

    async def kill_any(self) -> None:
        await self._kill(self.random.choice(self.members.running))

    async def _kill(self, member: AnyMember) -> None:
        await member.kill()
        await self.progress()
        member.start(self.members.overrides)

    async def kill_all(self) -> None:
        await self.members.kill_all()
        self.members.start_all()

    async def begin_leases(self) -> None:
        """All nodes are killed, and then started with read leases."""
        await self.members.kill_all()
        self.members.overrides |= LEASES
        self.members.start_all()

    async def pause_leader(self) -> None:
        await self._pause(await self.members.leader())

    async def pause_any(self) -> None:
        await self._pause(self.random.choice(self.members.running))

    async def _pause(self, member: AnyMember) -> None:
        """Pause a member until the others have elected another leader, if need be, and answered."""
        member.pause()
        await self.members.leader(besides=member)
        await self.progress()
        member.resume()

    async def transfer(self) -> None:
        leader = await self.members.leader()
        others = [member for member in self.members.running if member is not leader]
        await self.random.choice(others).transfer_leadership(self.random.choice(others).id)

    async def resign(self) -> None:
        await (await self.members.leader()).resign()

    async def change_voters(self) -> None:
        """One of the voters becomes an observer, perhaps the leader, and an observer a voter."""
        target = sorted(self.random.sample(sorted(self.members.by_id), VOTERS))
        client = AdminClient(self.members.quorum.bootstrap_servers)
        try:
            await client.alter_partition_reassignments(target)
        except KraftError:
            pass  # Perhaps the leader was replaced just then; another fault follows.


Fault: TypeAlias = Callable[[Faults], Awaitable[None]]

FAULTS: Final[tuple[Fault, ...]] = (
    Faults.kill_leader,
    Faults.pause_leader,
    Faults.transfer,
    Faults.change_voters,
    Faults.kill_any,
    Faults.resign,
    Faults.pause_any,
    Faults.kill_all,
)
