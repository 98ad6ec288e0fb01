"""`kraft metadata-quorum reassign`: says which voters the quorum shall have (KIP-642)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs
import click
import trio

from kraft_trio.cli.controller_commands import tell_outcome
from kraft_trio.cli.output import echo, echo_line
from kraft_trio.cli.quorum_layout import labelled
from kraft_trio.cli.quorum_options import FETCH_TIMEOUT_MS, QuorumOptions, described
from kraft_trio.cli.reassignment_plan import health_by_key, names_of, plan_reassignment, voters_of
from kraft_trio.cli.timeout_option import timeout_option
from kraft_trio.cli.voter_change_run import LOOK_AGAIN_S, ChangeRefused, tell
from kraft_trio.cli.voter_plan import majority_text
from kraft_trio.cli.whole_number import WholeNumbers
from kraft_trio.client.admin import AdminClient, VoterChangeError
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState
from kraft_trio.config.key import MAX_INT32
from kraft_trio.errors import OutcomeUnknownError
from kraft_trio.protocol.voter_changes import Refused
from kraft_trio.wire.error_codes import ErrorCode

PROGRESS_S: Final = 2.0
"""How often the lag is shown at most, while nothing else changes."""

_REFUSALS: Final = {
    ErrorCode.invalid_replica_assignment: "",
    ErrorCode.invalid_replication_factor: "",
    ErrorCode.unsupported_version: "the voters cannot be reassigned: ",
    ErrorCode.unknown_topic_or_partition: (
        "the leader does not reassign voters, as Kafka's controllers do not: change them one at a time with "
        "add-controller and remove-controller"
    ),
    ErrorCode.not_controller: "no leader accepted the target in time: ",
    ErrorCode.request_timed_out: "the target has not committed in time: ",
}


@click.command("reassign")
@click.option(
    "--to", "target", type=WholeNumbers(0, MAX_INT32), metavar="ID[,…]", help="The ids of all voters to have."
)
@click.option("--cancel", is_flag=True, help="End the reassignment.  The voters remain as they are now.")
@click.option("--dry-run", is_flag=True, help="Show the steps and whether the target would be refused.")
@click.option("--wait", is_flag=True, help="Show the progress until the quorum has these voters.")
@timeout_option("--timeout-ms", help="Time limit for committing the target; --wait has none.")
@click.pass_context
def reassign(
    context: click.Context, target: tuple[int, ...] | None, cancel: bool, dry_run: bool, wait: bool, timeout_ms: int
) -> None:
    """Give the quorum the voters that --to names.

    The leader adds and removes one voter after the other, and the next leader goes on.  A new voter must run as an
    observer before, formatted with --no-initial-controllers.  The command sends the target and returns; repeat it with
    --wait to follow.  Ctrl-C ends only the command.
    """
    if cancel == (target is not None):
        raise click.UsageError("give one of --to and --cancel", context)
    if wait and (cancel or dry_run):
        raise click.UsageError("--wait goes only with --to, and not with --dry-run", context)
    options: QuorumOptions = context.obj
    nodes = ",".join(map(str, options.endpoints(context)))
    run = Reassigning(
        options.client(context),
        options.timeout_ms,
        timeout_ms,
        f"kraft metadata-quorum --bootstrap-controller {nodes}",
    )
    if target is None:
        trio.run(run.show_cancel if dry_run else run.cancel)
    elif dry_run:
        trio.run(run.show, target)
    else:
        trio.run(run.run, target, wait)


@attrs.frozen
class Reassigning:
    """One run of the command.  Times are in milliseconds; `command` is what a further command begins with."""

    client: AdminClient
    find_leader_ms: int
    timeout_ms: int
    command: str
    fetch_timeout_ms: int = FETCH_TIMEOUT_MS

    async def show(self, ids: tuple[int, ...]) -> None:
        """Dry run.  Raises ChangeRefused if the leader would refuse the target."""
        plan = plan_reassignment(await self._describe(), ids, self.fetch_timeout_ms)
        if isinstance(plan, Refused):
            raise ChangeRefused(f"would be refused: {plan.reason}")
        echo(f"DRY RUN of reassigning the voters to {_listed(ids)}")
        for line in plan.lines():
            echo_line(line)

    async def run(self, ids: tuple[int, ...], waits: bool) -> None:
        """Send the target, and follow the steps if `waits`."""
        plan = plan_reassignment(await self._describe(), ids, self.fetch_timeout_ms)
        # The leader knows better why it refuses, or it has heard of the replica meanwhile.
        if not isinstance(plan, Refused):
            for line in plan.lines():
                echo_line(line)
        await self._alter(ids)
        quorum = await self._describe()
        if _has_voters(quorum, ids):
            self._tell_done(quorum)
        elif waits:
            await self._follow(quorum, ids)
        else:
            echo(f"Reassigning the voters to {_listed(ids)}.  To follow it, or to cancel it:")
            echo(f"  {self.command} reassign --to {','.join(map(str, ids))} --wait")
            echo(f"  {self.command} reassign --cancel")

    async def show_cancel(self) -> None:
        quorum = await self._describe()
        if not quorum.target_voters:
            self._tell_nothing_to_cancel()
            return
        echo(f"DRY RUN of cancelling the reassignment to {_target_of(quorum)}")
        echo_line(labelled("Voters", _voters_of(quorum)))

    async def cancel(self) -> None:
        try:
            await self._alter(None)
        except VoterChangeError as error:
            if error.error != ErrorCode.no_reassignment_in_progress:
                raise
            self._tell_nothing_to_cancel()
            return
        echo(f"Cancelled the reassignment: the voters are {_voters_of(await self._describe())}")

    async def _describe(self) -> QuorumDescription:
        return await described(self.client, self.find_leader_ms)

    async def _alter(self, ids: tuple[int, ...] | None) -> None:
        """Raises ChangeRefused, OutcomeUnknownError, and the other errors of AdminClient."""
        try:
            await self.client.alter_partition_reassignments(ids, timeout_ms=self.timeout_ms)
        except VoterChangeError as error:
            if error.error not in _REFUSALS:
                raise
            reason = f"{_REFUSALS[error.error]}{error.reason or ''}"
            if error.error == ErrorCode.request_timed_out:
                raise OutcomeUnknownError(f"{reason}; run the command again to find out") from error
            raise ChangeRefused(f"refused: {reason}") from error

    async def _follow(self, quorum: QuorumDescription, ids: tuple[int, ...]) -> None:
        """Show each step until the voters are the target.  Raises ChangeRefused if the target is given up."""
        tell("Ctrl-C ends only this command: the leader goes on")
        shown: object = None
        shown_at = trio.current_time()
        while not _has_voters(quorum, ids):
            if _ids(quorum.target_voters) != set(ids) and not _is_uncommitted(quorum):
                raise ChangeRefused(_given_up(quorum, ids))
            now = trio.current_time()
            step = (_voters_of(quorum), quorum.leader_id, quorum.reassignment_status)
            if step != shown or now >= shown_at + PROGRESS_S:
                lag = self._lag_of(quorum)
                if step != shown or lag:
                    self._show_progress(quorum, lag)
                shown, shown_at = step, now
            await trio.sleep(LOOK_AGAIN_S)
            quorum = await self._describe()
        self._tell_done(quorum)

    def _show_progress(self, quorum: QuorumDescription, lag: str) -> None:
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

    def _tell_done(self, quorum: QuorumDescription) -> None:
        echo(f"The voters are {_voters_of(quorum)}")

    def _tell_nothing_to_cancel(self) -> None:
        tell_outcome("there is no reassignment to cancel", "")


def _has_voters(quorum: QuorumDescription, ids: tuple[int, ...]) -> bool:
    """Whether these are the committed voters, and nothing is left to do."""
    if quorum.target_voters or _is_uncommitted(quorum):
        return False
    return _ids(quorum.voters) == set(ids)


def _is_uncommitted(quorum: QuorumDescription) -> bool:
    """Whether the leader's log may still change, as after an election."""
    return bool(quorum.committed_voters) or quorum.high_watermark < 0


def _given_up(quorum: QuorumDescription, ids: tuple[int, ...]) -> str:
    if quorum.target_voters:
        return f"somebody else has set another target, {_target_of(quorum)}: the voters are {_voters_of(quorum)}"
    return (
        f"the reassignment to {_listed(ids)} was cancelled, or a leader of Kafka has dropped its target: "
        f"the voters are {_voters_of(quorum)}"
    )


def _ids(states: Iterable[ReplicaState]) -> set[int]:
    return {state.key.id for state in states}


def _listed(ids: tuple[int, ...]) -> str:
    return ", ".join(map(str, ids))


def _voters_of(quorum: QuorumDescription) -> str:
    return names_of(state.key for state in quorum.voters)


def _target_of(quorum: QuorumDescription) -> str:
    return names_of(state.key for state in quorum.target_voters)
