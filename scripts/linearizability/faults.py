"""What happens to the nodes while clients use them.  Each fault lasts until the clients have made progress."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import attrs
import trio

from kraft_trio.client.admin import AdminClient
from kraft_trio.client.quorum_description import QuorumDescription
from kraft_trio.errors import KraftError
from kraft_trio.simulation.facts.history import LEASE_READ
from scripts.linearizability.clients import Recorder
from scripts.linearizability.clocks import Clocks
from scripts.linearizability.members import LEASES, AnyMember, Members
from scripts.linearizability.proxy import PeerProxy

PROGRESS: Final = 20
"""How many operations are acknowledged between two faults, and while one lasts."""
PROGRESS_S: Final = 60.0
"""That takes a second or two; the machine may be busy."""
VOTERS: Final = 3
TRIES: Final = 5
"""How often a fault may happen in vain: the leader may be replaced just then."""


class NoProgress(AssertionError):
    """The clients got no answers, or the nodes no leader, for too long."""


class NoEffect(AssertionError):
    """A fault that was asked for has never had an effect, so the history says nothing about it."""


@attrs.define(eq=False)
class Faults:
    members: Members[Any]
    recorder: Recorder
    proxy: PeerProxy
    clocks: Clocks
    random: random.Random
    caused: Counter[str] = attrs.field(factory=Counter)
    """How often each fault has happened."""
    effective: Counter[str] = attrs.field(factory=Counter)
    """How often it has had an effect."""

    async def cause(self, fault: Fault) -> bool:
        """Whether it has had an effect.  Raises NoProgress."""
        name = name_of(fault)
        self.caused[name] += 1
        had_effect = await fault(self)
        self.effective[name] += had_effect
        await self.progress()
        return had_effect

    async def cause_all(self, faults: Iterable[Fault]) -> None:
        """Cause each of them until it has had an effect.  Raises NoProgress and NoEffect."""
        for fault in faults:
            for _ in range(TRIES):
                if await self.cause(fault):
                    break
            else:
                raise NoEffect(f"{name_of(fault)}: no effect in {TRIES} tries")

    async def progress(self) -> None:
        """Wait until clients have got answers.  Raises NoProgress."""
        wanted = self.recorder.acknowledged + PROGRESS
        await self._until(lambda: self.recorder.acknowledged >= wanted, f"{wanted} answers")

    async def lease_read(self) -> None:
        """Wait until a lease has answered a read.  Raises NoProgress."""
        await self._until(lambda: any(entry.kind == LEASE_READ for entry in self.recorder.entries), "a lease read")

    async def leader(self, *, besides: AnyMember | None = None) -> AnyMember:
        """The leader, other than `besides`.  Raises NoProgress."""
        with self._limit("a leader" if besides is None else f"a leader besides node {besides.id}"):
            leader: AnyMember = await self.members.leader(besides=besides)
            return leader

    @property
    def running_ids(self) -> list[int]:
        return [member.id for member in self.members.running]

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        with self._limit(what):
            while not holds():
                await self.recorder.changed.park()

    @contextmanager
    def _limit(self, what: str) -> Iterator[None]:
        with trio.move_on_after(PROGRESS_S) as limit:
            yield
        if limit.cancelled_caught:
            latest = ", ".join(f"{name} {count}" for name, count in self.caused.items())
            raise NoProgress(f"after {latest}: not yet {what}, only {self.recorder.acknowledged} answers")

    async def kill_leader(self) -> bool:
        """The leader is killed, and started again after progress."""
        return await self._kill(await self.leader())

    async def kill_any(self) -> bool:
        """Any node is killed, and started again after progress."""
        return await self._kill(self.random.choice(self.members.running))

    async def _kill(self, member: AnyMember) -> bool:
        was_killed = await member.kill()
        await self.progress()
        member.start(self.members.overrides)
        return was_killed

    async def kill_all(self) -> bool:
        """All nodes are killed, and started again."""
        were_killed = await self.members.kill_all()
        self.members.start_all()
        return were_killed

    async def begin_leases(self) -> bool:
        """All nodes are killed, and then started with read leases."""
        were_killed = await self.members.kill_all()
        self.members.overrides |= LEASES
        self.members.start_all()
        return were_killed

    async def pause_leader(self) -> bool:
        """The leader is stopped by SIGSTOP until another leads and there is progress."""
        return await self._pause(await self.leader())

    async def pause_any(self) -> bool:
        """Any node is stopped by SIGSTOP until there is progress."""
        return await self._pause(self.random.choice(self.members.running))

    async def _pause(self, member: AnyMember) -> bool:
        """Pause a member until the others have elected another leader, if need be, and answered."""
        member.pause()
        await self.leader(besides=member)
        await self.progress()
        has_stopped = member.has_stopped
        member.resume()
        return has_stopped

    async def transfer(self) -> bool:
        """Another node is asked for as leader."""
        leader = await self.leader()
        others = [member for member in self.members.running if member is not leader]
        asked, to = self.random.choice(others), self.random.choice(others).id
        has_led: bool = await asked.transfer_leadership(to)
        return has_led

    async def resign(self) -> bool:
        """The leader resigns."""
        return await (await self.leader()).resign()

    async def change_voters(self) -> bool:
        """One of the voters becomes an observer, perhaps the leader, and an observer a voter."""
        client = AdminClient(self.members.quorum.bootstrap_servers)
        try:
            quorum = await client.describe_metadata_quorum()
            if not isinstance(quorum, QuorumDescription):
                return False
            voters = {voter.key.id for voter in quorum.voters}
            target = sorted(self.random.sample(sorted(self.members.by_id), VOTERS))
            while set(target) == voters:
                target = sorted(self.random.sample(sorted(self.members.by_id), VOTERS))
            await client.alter_partition_reassignments(target)
        except KraftError:
            return False  # Perhaps the leader was replaced just then.
        return True

    async def change_clocks(self) -> bool:
        """All clocks change their pace by at most the configured drift of 10 %; wall clocks jump by up to a minute."""
        self.clocks.change(self.random)
        await self.progress()
        return self.clocks.are_used(self.running_ids)


Fault: TypeAlias = Callable[[Faults], Awaitable[bool]]
"""Returns whether it has had an effect."""


def name_of(fault: Fault) -> str:
    return fault.__name__.replace("_", "-")
