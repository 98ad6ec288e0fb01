"""`kraft metadata-quorum reassign`: sets the target voters of the quorum (KIP-642)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import attrs
import click
import trio

from kraft_trio.cli.quorum.client_reassignment import ClientReassignment, step_towards
from kraft_trio.cli.quorum.controller_commands import tell_outcome
from kraft_trio.cli.quorum.leader_reassignment import LeaderDoesNotReassignError, LeaderReassignment, set_target
from kraft_trio.cli.quorum.quorum_options import FETCH_TIMEOUT_MS, QuorumOptions
from kraft_trio.cli.quorum.reassignment_plan import (
    ReassignmentPlan,
    health_by_key,
    names_of,
    plan_reassignment,
    voters_of,
)
from kraft_trio.cli.quorum.voter_change_run import ChangeRefused, ChangeRun, tell
from kraft_trio.cli.quorum.voter_plan import majority_text
from kraft_trio.cli.terminal.layout import labelled
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.timeout_option import timeout_option
from kraft_trio.cli.terminal.whole_number import WholeNumbers
from kraft_trio.client.admin import VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState
from kraft_trio.config.key import MAX_INT32
from kraft_trio.protocol.types import ReplicaKey
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.wire.error_codes import ErrorCode

PROGRESS_S: Final = 2.0
"""How often the lag is shown at most, while nothing else changes."""


@click.command("reassign")
@click.option(
    "--to", "target", type=WholeNumbers(0, MAX_INT32), metavar="ID[,…]", help="The ids of all voters to have."
)
@click.option("--cancel", is_flag=True, help="End the reassignment.  The voters remain as they are now.")
@click.option("--dry-run", is_flag=True, help="Show the steps; exit with 1 if the target would be refused.")
@click.option("--wait", is_flag=True, help="Show the progress until the quorum has these voters.")
@timeout_option("--timeout-ms", help="Time limit for committing the target; --wait has none.")
@click.pass_context
def reassign(
    context: click.Context, target: tuple[int, ...] | None, cancel: bool, dry_run: bool, wait: bool, timeout_ms: int
) -> None:
    """Give the quorum the voters that --to names.

    The leader adds and removes one voter after the other, and the next leader continues.  A new voter must run as an
    observer before, formatted with --no-initial-controllers.  The command sends the target and returns; repeat it with
    --wait to follow.  Ctrl-C ends only the command.

    Kafka's controllers do not know the request.  For them, the command takes the same steps itself.
    """
    if cancel == (target is not None):
        raise click.UsageError("give one of --to and --cancel", context)
    if wait and (cancel or dry_run):
        raise click.UsageError("--wait goes only with --to, and not with --dry-run", context)
    options: QuorumOptions = context.obj
    run = Reassigning(
        ChangeRun(options.client(context, changes=True), options.timeout_ms, timeout_ms, FETCH_TIMEOUT_MS),
        options.command(options.endpoints(context)),
    )
    if target is None:
        trio.run(run.show_cancel if dry_run else run.cancel)
    elif dry_run:
        trio.run(run.show, target)
    else:
        trio.run(run.run, target, wait)


@attrs.frozen
class Reassigning:
    """One run of the command.  `command` is what a further command begins with."""

    changes: ChangeRun
    command: str

    async def show(self, ids: tuple[int, ...]) -> None:
        """Dry run.  Raises ChangeRefused if the leader would refuse the target."""
        plan = await self._plan(ids)
        if isinstance(plan, Refused):
            raise ChangeRefused(f"would be refused: {plan.reason}")
        echo(f"DRY RUN of reassigning the voters to {_listed(ids)}")
        for line in plan.lines():
            echo_line(line)

    async def run(self, ids: tuple[int, ...], waits: bool) -> None:
        """Send the target, and follow the steps if `waits`.  If the leader does not know how, take the steps here."""
        plan = await self._plan(ids)
        # The leader knows better why it refuses, or it has heard of the replica meanwhile.
        if not isinstance(plan, Refused):
            for line in plan.lines():
                echo_line(line)
        try:
            await set_target(self.changes, ids)
        except LeaderDoesNotReassignError:
            if isinstance(plan, Refused):
                raise ChangeRefused(f"refused: {plan.reason}") from None
            await self._take_steps(plan.target, waits)
            return
        reassignment = LeaderReassignment(self.changes, _listed(ids), lambda states: _ids(states) == set(ids))
        quorum = await self.changes.describe()
        if waits and not reassignment.is_reached(quorum):
            tell("Ctrl-C ends only this command: the leader continues")
            quorum = await reassignment.follow(quorum, _Progress(reassignment, self.changes.fetch_timeout_ms).show)
        if reassignment.is_reached(quorum):
            self._tell_done(quorum)
        else:
            echo(f"Reassigning the voters to {_listed(ids)}.  To follow it, or to cancel it:")
            echo(f"  {self.command} reassign --to {','.join(map(str, ids))} --wait")
            echo(f"  {self.command} reassign --cancel")

    async def show_cancel(self) -> None:
        quorum = await self.changes.describe()
        if not quorum.target_voters:
            self._tell_nothing_to_cancel()
            return
        echo(f"DRY RUN of cancelling the reassignment to {names_of(state.key for state in quorum.target_voters)}")
        echo_line(labelled("Voters", _voters_of(quorum)))

    async def cancel(self) -> None:
        try:
            await set_target(self.changes, None)
        except LeaderDoesNotReassignError:
            self._tell_nothing_to_cancel()
            return
        except VoterChangeError as error:
            if error.error != ErrorCode.no_reassignment_in_progress:
                raise
            self._tell_nothing_to_cancel()
            return
        echo(f"Cancelled the reassignment: the voters are {_voters_of(await self.changes.describe())}")

    async def _plan(self, ids: tuple[int, ...]) -> ReassignmentPlan | Refused:
        return plan_reassignment(await self.changes.describe(), ids, self.changes.fetch_timeout_ms)

    async def _take_steps(self, target: tuple[ReplicaKey, ...], waits: bool) -> None:
        tell("the leader does not reassign voters, so this command takes the steps; if it is interrupted, run it again")
        wait_s = math.inf if waits else self.changes.timeout_ms / 1000
        steps = ClientReassignment(self.changes, lambda quorum, key: quorum.endpoints_of(key), wait_s)
        self._tell_done(await steps.run(step_towards(target, self.changes.fetch_timeout_ms)))

    def _tell_done(self, quorum: QuorumDescription) -> None:
        echo(f"The voters are {_voters_of(quorum)}")

    def _tell_nothing_to_cancel(self) -> None:
        tell_outcome("there is no reassignment to cancel", "")


@attrs.define
class _Progress:
    """Shows each step, and the lag of the newcomers at most every PROGRESS_S."""

    reassignment: LeaderReassignment
    fetch_timeout_ms: int
    _shown: object = None
    _shown_at: float = -math.inf

    def show(self, quorum: QuorumDescription) -> None:
        if self.reassignment.is_reached(quorum):
            return
        now = trio.current_time()
        step = (_voters_of(quorum), quorum.leader_id, quorum.reassignment_status)
        if step == self._shown and now < self._shown_at + PROGRESS_S:
            return
        lag = self._lag_of(quorum)
        if step != self._shown or lag:
            self._show(quorum, lag)
        self._shown, self._shown_at = step, now

    def _show(self, quorum: QuorumDescription, lag: str) -> None:
        voters = voters_of((state.key for state in quorum.voters), health_by_key(quorum, self.fetch_timeout_ms))
        echo_line(labelled("Voters", f"{_voters_of(quorum)}: {majority_text(voters)}"))
        echo_line(labelled("ReassignmentStatus", quorum.reassignment_status or "the leader begins"))
        if lag:
            echo_line(labelled("Lag", lag))

    def _lag_of(self, quorum: QuorumDescription) -> str:
        """Which target voters do not keep up, and why."""
        healths = health_by_key(quorum, self.fetch_timeout_ms)
        late = [(state.key, healths.get(state.key)) for state in quorum.target_voters]
        return "; ".join(f"{key} {health.reason}" for key, health in late if health is not None and not health.is_up)


def _ids(states: Iterable[ReplicaState]) -> set[int]:
    return {state.key.id for state in states}


def _listed(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids))


def _voters_of(quorum: QuorumDescription) -> str:
    return names_of(state.key for state in quorum.voters)
