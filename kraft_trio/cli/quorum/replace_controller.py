"""`kraft metadata-quorum replace`: gives a replaced disk its predecessor's place among the voters.

This is a reassignment to the same ids (KIP-642), which takes two changes: remove the old directory id, then add the new
one (KIP-853 "Disk failure recovery").  One id cannot be a voter twice.  The leader makes the changes if it knows how;
otherwise the command does.  Either way the command first looks at the quorum and continues from what it finds, so that
running it again after an interruption finishes the job.
"""

from __future__ import annotations

from typing import Final

import attrs
import click
import trio

from kraft_trio.cli.quorum.client_reassignment import ClientReassignment, NextStep, step_towards
from kraft_trio.cli.quorum.controller_commands import NO_LISTENERS, OwnNode, change_options, read_own_node, told
from kraft_trio.cli.quorum.leader_reassignment import LeaderDoesNotReassignError, LeaderReassignment, set_target
from kraft_trio.cli.quorum.quorum_options import FETCH_TIMEOUT_MS, QuorumOptions
from kraft_trio.cli.quorum.reassignment_plan import names_of
from kraft_trio.cli.quorum.voter_change_run import LOOK_AGAIN_S, ChangeRefused, ChangeRun, tell
from kraft_trio.cli.quorum.voter_plan import VoterPlan, misfit_of, plan_add, plan_remove
from kraft_trio.cli.terminal.output import echo, echo_line
from kraft_trio.cli.terminal.paths import NamedPath
from kraft_trio.cli.terminal.whole_number import WholeNumber
from kraft_trio.client.quorum_description import QuorumDescription, ReplicaState, health_of
from kraft_trio.config.key import MAX_INT32
from kraft_trio.config.properties import read_file
from kraft_trio.config.values import ADVERTISED_LISTENERS
from kraft_trio.errors import ConfigError
from kraft_trio.protocol.reassignment import Add, Done, Remove, Step
from kraft_trio.protocol.types import Endpoints, ReplicaKey

_CLOCK_JITTER_MS: Final = 100
"""Tolerance for comparing two answers, because a leader reports the time of one fetch slightly differently each time.
A follower fetches every 500 ms."""


@attrs.frozen
class Replacement:
    """What remains to be done.

    `old` is None once it is removed.  `new` is None while no replacement follows the leader.
    """

    old: ReplicaState | None = None
    new: ReplicaState | None = None
    is_new_up: bool = False
    is_done: bool = False


def what_is_left(
    quorum: QuorumDescription, controller_id: int, fetch_timeout_ms: int, new_key: ReplicaKey | None = None
) -> Replacement:
    """Determine the voter to remove and its replacement: `new_key`, or the only other incarnation that follows the
    leader.

    Raises ChangeRefused if the replacement is ambiguous.
    """
    voter = quorum.voter_of_id(controller_id)
    if voter is not None and voter.key == new_key:
        return Replacement(is_done=True)
    others = quorum.observers_of_id(controller_id)
    if new_key is not None:
        others = tuple(state for state in others if state.key == new_key)
    following = [state for state in others if health_of(quorum, state, fetch_timeout_ms).is_up]
    if len(following) > 1:
        names = ", ".join(str(state.key) for state in following)
        raise ChangeRefused(f"refused: {names} all follow the leader: name the new one by its file with -c")
    if voter is not None and not following and new_key is None and health_of(quorum, voter, fetch_timeout_ms).is_up:
        # The observer is an earlier incarnation: a leader remembers those for minutes.
        return Replacement(is_done=True)
    new = following[0] if following else next(iter(others), None)
    return Replacement(voter, new, bool(following))


def may_have_died(
    first: QuorumDescription, quorum: QuorumDescription, controller_id: int, fetch_timeout_ms: int
) -> bool:
    """Whether the voter counts as up only because of what it did before the `first` look.

    The leader considers a killed node up until its fetch timeout has passed.
    """
    before, voter = first.voter_of_id(controller_id), quorum.voter_of_id(controller_id)
    if before is None or voter is None or voter is quorum.leader or before.key != voter.key:
        return False
    has_fetched = voter.last_fetch_timestamp_ms > before.last_fetch_timestamp_ms + _CLOCK_JITTER_MS
    return not has_fetched and health_of(quorum, voter, fetch_timeout_ms).is_up


@click.command()
@click.option(
    "-i",
    "--controller-id",
    type=WholeNumber(0, MAX_INT32),
    metavar="ID",
    help="The id of the controller with the new disk.",
)
@click.option(
    "-c",
    "--config",
    "config_path",
    metavar="FILE",
    type=NamedPath(),
    help="Its .properties file, if you are on its machine.",
)
@click.option(
    "--listeners",
    metavar="NAME://HOST:PORT[,…]",
    help="The new listeners; by default those of the old incarnation.",
)
@change_options
@click.pass_context
def replace(
    context: click.Context,
    controller_id: int | None,
    config_path: str | None,
    listeners: str | None,
    timeout_ms: int,
    dry_run: bool,
    force: bool,
) -> None:
    """Replace a voter's disk.

    The command removes the voter's old directory id and adds the new one.  First format the new disk with
    --no-initial-controllers and start the node.  The command waits until the new incarnation has caught up, then makes
    the changes.  After an interruption, run it again.
    """
    options: QuorumOptions = context.obj
    path = config_path or _file_of_node(options.command_config, controller_id)
    own = None if path is None else read_own_node(path)
    if own is None and controller_id is None:
        raise click.UsageError("give the controller's id with -i, or its file with -c", context)
    if own is not None and controller_id not in (None, own.key.id):
        raise ConfigError(f"-i {controller_id}: {path} is of node {own.key.id}")
    config = None if own is None else own.config
    client = options.client(context, config, changes=True)
    fetch_timeout_ms = FETCH_TIMEOUT_MS if own is None else own.config.fetch_timeout_ms
    run = ChangeRun(client, options.timeout_ms, timeout_ms, fetch_timeout_ms, force)
    replacing = Replacing(
        run,
        own.key.id if own is not None else controller_id if controller_id is not None else -1,
        own,
        None if listeners is None else _parse_listeners(listeners),
        f"{options.command(options.endpoints(context, config))} replace" + ("" if own is None else f" -c {path}"),
    )
    trio.run(replacing.show if dry_run else replacing.run)


def _file_of_node(path: str | None, controller_id: int | None) -> str | None:
    """The file of --command-config, unless it only tells how to connect: it is a client's, or another node's."""
    if path is None or controller_id is None:
        return path
    values, _ = read_file(path)
    return path if values.get("node.id", "").strip() == str(controller_id) else None


def _parse_listeners(text: str) -> Endpoints:
    try:
        return Endpoints([(listener.name, listener.endpoint) for listener in ADVERTISED_LISTENERS.parse(text)])
    except ValueError as error:
        raise ConfigError(f"--listeners {text}: {error}") from error


@attrs.define
class Replacing:
    """One run of the command.  `listeners` are those of the new voter.

    `command` resumes it, once completed by the controller's id and, unless a file names them, the listeners.
    """

    changes: ChangeRun
    controller_id: int
    own: OwnNode | None
    listeners: Endpoints | None
    command: str = "kraft metadata-quorum … replace"

    async def show(self) -> None:
        """Dry run: show both steps in order.  Raises ChangeRefused if one of them would be refused."""
        quorum, left = await self._look()
        if left.is_done:
            self._tell_done(quorum)
            return
        new = self._new_of(left)
        echo(f"DRY RUN of replacing controller {self.controller_id}")
        objections: list[str] = []
        if left.old is not None:
            plan = plan_remove(quorum, left.old.key, self.changes.fetch_timeout_ms)
            _show_step(f"1. removing KRaft {told(left.old.key)}", plan)
            objections += [*self.objections_to(quorum, left.old), *plan.objections]
            quorum = attrs.evolve(quorum, voters=tuple(state for state in quorum.voters if state is not left.old))
        listeners = self._listeners(quorum, new.key)
        plan = plan_add(quorum, new.key, self.changes.fetch_timeout_ms, listeners, self._cluster_id)
        _show_step(f"{1 if left.old is None else 2}. adding {told(new.key, listeners or NO_LISTENERS)}", plan)
        objections += plan.objections
        if listeners is None:
            objections.append(self._no_listeners())
        if objections:
            raise ChangeRefused(f"would be refused: {'; '.join(objections)}")

    async def run(self) -> None:
        """Have the leader take the remaining steps, or take them here."""
        quorum, left = await self._until_new_is_up()
        if left.is_done:
            self._tell_done(quorum)
            return
        old, new = left.old, self._new_of(left)
        listeners = self._listeners(quorum, new.key)
        if listeners is None:
            raise ChangeRefused(f"refused: {self._no_listeners()}")
        # Check this before removing the old one; otherwise nothing could replace it.
        misfit = misfit_of(quorum, new.key, listeners, self._cluster_id)
        if misfit is not None and not self.changes.force:
            raise ChangeRefused(f"refused: {misfit}")
        if old is not None:
            objections = self.objections_to(quorum, old)
            if objections and not self.changes.force:
                raise ChangeRefused(f"refused: {objections[0]} (--force replaces the voter anyway)")
            echo(f"Replacing controller {self.controller_id}; to resume after an interruption:")
            echo(f"  {self._how_to_go_on(quorum, new.key, listeners)}")
        others = {state.key for state in quorum.voters if state is not old}
        target = tuple(sorted({*others, new.key}))
        # The leader would neither take a step that stops the quorum, nor use other listeners than it knows.
        is_for_leader = not self.changes.force and self.listeners is None
        if is_for_leader and await self._have_leader_replace(quorum, old, target, listeners):
            return
        steps = ClientReassignment(self.changes, lambda _quorum, _key: listeners, self.changes.timeout_ms / 1000)
        in_order = _order_of(None if old is None else old.key, new.key)
        await steps.run(in_order if self.changes.force else step_towards(target, self.changes.fetch_timeout_ms))

    async def _have_leader_replace(
        self,
        quorum: QuorumDescription,
        old: ReplicaState | None,
        target: tuple[ReplicaKey, ...],
        listeners: Endpoints,
    ) -> bool:
        """Send the target, unless the leader has it already, and tell each step.  False if it does not know how."""
        pending = {state.key for state in quorum.target_voters}
        if not pending:
            if old is not None:
                await self.changes.checked(lambda quorum: plan_remove(quorum, old.key, self.changes.fetch_timeout_ms))
            try:
                await set_target(self.changes, target)
            except LeaderDoesNotReassignError:
                return False
        elif pending != set(target):
            raise ChangeRefused(
                f"refused: the voters are being reassigned to {names_of(pending)}: wait until they are, or cancel that "
                "(`reassign --cancel`)"
            )
        is_removed = old is None

        def show(quorum: QuorumDescription) -> None:
            nonlocal is_removed
            if old is not None and not is_removed and quorum.voter(old.key) is None:
                is_removed = True
                echo(f"Removed KRaft {told(old.key)}")

        reassignment = LeaderReassignment(
            self.changes, names_of(target), lambda states: {state.key for state in states} == set(target)
        )
        await reassignment.follow(await self.changes.describe(), show, self.changes.timeout_ms / 1000)
        [new] = [key for key in target if key.id == self.controller_id]
        echo(f"Added {told(new, listeners)}")
        return True

    async def _look(self) -> tuple[QuorumDescription, Replacement]:
        """Describe the quorum and what remains, once it is certain whether the voter with that id is alive."""
        new_key = None if self.own is None else self.own.key
        fetch_timeout_ms = self.changes.fetch_timeout_ms
        # The deadline guards against a leader that does not report its time: the voter would look alive forever.
        deadline = trio.current_time() + fetch_timeout_ms / 1000
        first = await self.changes.describe()
        quorum = first
        while may_have_died(first, quorum, self.controller_id, fetch_timeout_ms) and trio.current_time() < deadline:
            await trio.sleep(LOOK_AGAIN_S)
            quorum = await self.changes.describe()
        return quorum, what_is_left(quorum, self.controller_id, fetch_timeout_ms, new_key)

    async def _until_new_is_up(self) -> tuple[QuorumDescription, Replacement]:
        """Wait until the new incarnation has caught up or nothing remains to be done.  Raises ChangeRefused."""
        deadline = trio.current_time() + self.changes.timeout_ms / 1000
        waits_for = ""
        while True:
            quorum, left = await self._look()
            if left.is_done or left.is_new_up:
                return quorum, left
            if trio.current_time() > deadline:
                new = self._new_of(left)
                reason = health_of(quorum, new, self.changes.fetch_timeout_ms).reason
                state = "nothing has been changed" if left.old is not None else "it is not a voter yet"
                raise ChangeRefused(f"refused: {new.key} {reason}: {state}")
            if waits_for != (waits_for := self._what_it_waits_for(left)):
                tell(f"waiting until {waits_for}; until then nothing changes")
            await trio.sleep(LOOK_AGAIN_S)

    def _what_it_waits_for(self, left: Replacement) -> str:
        if left.new is None:
            return f"another incarnation of controller {self.controller_id} follows the leader"
        return f"{left.new.key} has caught up"

    def _tell_done(self, quorum: QuorumDescription) -> None:
        voter = quorum.voter_of_id(self.controller_id)
        assert voter is not None, "nothing is left to do"
        echo(f"Nothing to replace: {told(voter.key)} is a voter, and no other incarnation is waiting")

    def _new_of(self, left: Replacement) -> ReplicaState:
        """Raises ChangeRefused if there is no replacement."""
        if left.new is None:
            no_voter = "" if left.old is not None else f"controller {self.controller_id} is not a voter, and "
            raise ChangeRefused(
                f"refused: {no_voter}no other incarnation of controller {self.controller_id} follows the leader: "
                "format its new disk with --no-initial-controllers, and start it"
            )
        return left.new

    def objections_to(self, quorum: QuorumDescription, old: ReplicaState) -> list[str]:
        """Why the voter may still be alive."""
        if not health_of(quorum, old, self.changes.fetch_timeout_ms).is_up:
            return []
        return [f"{old.key} keeps up with the leader: two processes have id {old.key.id}; stop the wrong one"]

    @property
    def _cluster_id(self) -> str | None:
        return None if self.own is None else self.own.cluster_id

    def _listeners(self, quorum: QuorumDescription, new: ReplicaKey) -> Endpoints | None:
        """The given listeners, the file's, those of the old incarnation while it is a voter, or those in the quorum."""
        if self.listeners is not None:
            return self.listeners
        if self.own is not None:
            return self.own.listeners
        return quorum.endpoints.get(self.controller_id) or quorum.endpoints_of(new)

    def _no_listeners(self) -> str:
        return (
            f"controller {self.controller_id} is no longer a voter, so its listeners are unknown: give "
            "--listeners, or its file with -c"
        )

    def _how_to_go_on(self, quorum: QuorumDescription, new: ReplicaKey, listeners: Endpoints) -> str:
        if self.own is not None and listeners == self.own.listeners:
            return self.command
        command = f"{self.command} -i {self.controller_id}"
        if self.listeners is None and quorum.endpoints_of(new) is not None:
            return command
        return f"{command} --listeners {','.join(f'{name}://{endpoint}' for name, endpoint in listeners)}"


def _order_of(old: ReplicaKey | None, new: ReplicaKey) -> NextStep:
    """Both changes in their order, though the quorum may not survive the first one."""

    def step(quorum: QuorumDescription) -> Step:
        if quorum.voter(new) is not None:
            return Done()
        return Add(new) if old is None or quorum.voter(old) is None else Remove(old)

    return step


def _show_step(title: str, plan: VoterPlan) -> None:
    echo(title)
    for line in plan.lines():
        echo_line(f"   {line}")
