"""Patroni: two PostgreSQL servers fail over and switch over, and three nodes serve in place of etcd.

The primary is killed with all its processes, then the leader of the quorum is killed. No acknowledged row is lost.
"""

from __future__ import annotations

import http.client
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from harness.ports import free_ports
from harness.waiting import Overdue, wait_until
from scripts.stories.node import StoryError
from scripts.stories.patroni_host import (
    HOST,
    SCOPE,
    TTL_S,
    PatroniHost,
    check_programs,
    configuration_shown,
)
from scripts.stories.row_writer import LOOK_EVERY_S, PrimaryWatch, RowWriter
from scripts.stories.story import WITHIN_S, Story

STOP_HOST_WITHIN_S = 30


def tell(story: Story) -> None:
    check_programs()
    with tempfile.TemporaryDirectory(prefix="kraft-patroni-") as directory:
        Path(directory).chmod(0o711)
        gateways = _start_quorum(story)
        with _hosts(story, Path(directory), gateways) as pair:
            _tell_of_hosts(story, pair)


def _start_quorum(story: Story) -> list[str]:
    story.say("A quorum of three voters. Each serves etcd's JSON gateway.")
    nodes = story.make_nodes(1, 2, 3)
    gateways = [f"{HOST}:{port}" for port in free_ports(len(nodes))]
    for node, gateway in zip(nodes, gateways, strict=True):
        story.configure(node, {"kraft.state.machine": "kv", "kraft.kv.listener": f"HTTP://{gateway}"})
    story.begin_with(nodes)
    story.start(*nodes)
    story.expect(voters=nodes)
    for gateway in gateways:
        wait_until(f"{gateway} is healthy", lambda gateway=gateway: _is_healthy(gateway), WITHIN_S)  # type: ignore[misc]
    return gateways


def _is_healthy(gateway: str) -> bool:
    connection = http.client.HTTPConnection(gateway, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@attrs.frozen
class Pair:
    """The two hosts."""

    story: Story
    hosts: tuple[PatroniHost, PatroniHost]

    def start(self, host: PatroniHost) -> None:
        self.story.show_command("patroni", host.configuration.name)
        host.start()
        print(f"  process {host.pid}, log {host.log.name}", flush=True)

    def patronictl(self, host: PatroniHost, *arguments: str) -> str:
        """Show a command, run it and show its output.  Raises StoryError unless it succeeds."""
        self.story.show_command("patronictl", "-c", host.configuration.name, *arguments)
        done = host.patronictl(*arguments)
        self.story.show((done.stdout + done.stderr).rstrip())
        if done.returncode != 0:
            raise StoryError(f"patronictl {shlex.join(arguments)}: exit code {done.returncode}")
        return done.stdout

    def until_roles(self, leader: PatroniHost, standby: PatroniHost | None = None) -> None:
        """Wait until Patroni says who leads and, with `standby`, that it replicates synchronously; show that."""

        def holds() -> bool:
            members = leader.cluster()
            roles = {name: (member.get("role"), member.get("state")) for name, member in members.items()}
            standby_follows = standby is None or roles.get(standby.name) == ("sync_standby", "streaming")
            return roles.get(leader.name) == ("leader", "running") and standby_follows

        try:
            wait_until(f"{leader} leads, and {standby or 'no other'} follows", holds, WITHIN_S, 0.1)
        except Overdue as error:
            logs = "".join(
                f"\n--- {host.log.name}:\n{host.log.read_text()[-3000:]}" for host in self.hosts if host.log.exists()
            )
            raise StoryError(f"{error}; the members are {leader.cluster()}{logs}") from error
        self.patronictl(leader, "list", SCOPE)


@contextmanager
def _hosts(story: Story, directory: Path, gateways: list[str]) -> Iterator[Pair]:
    ports = free_ports(4)
    hosts = []
    for name, port, rest_port in zip("ab", ports[:2], ports[2:], strict=True):
        (directory / name).mkdir()
        hosts.append(PatroniHost(name, story.home, directory / name, port, rest_port))
        text = hosts[-1].configure(gateways)
        print(f"{hosts[-1].configuration.name}, the part about the quorum:")
        story.show(configuration_shown(text).rstrip())
    try:
        yield Pair(story, (hosts[0], hosts[1]))
    finally:
        for host in reversed(hosts):
            host.stop(STOP_HOST_WITHIN_S)


def _tell_of_hosts(story: Story, pair: Pair) -> None:
    a, b = pair.hosts
    story.say("Host a initialises a PostgreSQL cluster. Host b copies it and becomes the synchronous standby.")
    pair.start(a)
    pair.until_roles(a)
    pair.start(b)
    pair.until_roles(a, b)

    with RowWriter(pair.hosts) as writer:
        _fail_over(pair, writer, a, b)
        _lose_our_leader(pair, writer, b)
        _switch_over(pair, writer, b, a)
    pair.until_roles(a, b)
    rows = {host.name: writer.check(host) for host in pair.hosts}
    story.say(
        f"{len(writer.acknowledged)} rows were acknowledged, and {writer.unknown} more were sent without an answer. "
        f"Host a has {rows['a']} rows and host b has {rows['b']}: no acknowledged row is lost."
    )
    pair.patronictl(a, "history", SCOPE)


def _fail_over(pair: Pair, writer: RowWriter, primary: PatroniHost, standby: PatroniHost) -> None:
    pair.story.say(f"A client writes rows. The machine of {primary} is gone: Patroni and PostgreSQL are killed.")
    _until_written(writer, time.monotonic())
    pair.story.show_command("kill", "-9", *map(str, primary.pids()))
    killed_s = time.monotonic()
    primary.kill()
    _until_written(writer, time.monotonic())
    gap_s = writer.service(killed_s).longest_gap_s
    pair.until_roles(standby)
    pair.story.say(f"Without a primary, no row was acknowledged for {gap_s:.1f} s; Patroni's ttl is {TTL_S} s.")

    pair.story.say(f"The machine of {primary} is back. Patroni makes its server a standby.")
    pair.start(primary)
    pair.until_roles(standby, primary)


def _lose_our_leader(pair: Pair, writer: RowWriter, primary: PatroniHost) -> None:
    story = pair.story
    leader = story.leader()
    story.say(f"The quorum loses {leader}, its leader. Patroni uses the other nodes: {primary} stays primary.")
    history = pair.patronictl(primary, "history", SCOPE)
    killed_s = time.monotonic()
    with PrimaryWatch(primary) as watch:
        story.lose_leader(leader)
        # Had Patroni not renewed its lease since, another host would lead by then.
        until_s = time.time() + TTL_S

        def has_stayed() -> bool:
            watch.check()
            return primary.dcs_last_seen() > until_s

        wait_until("Patroni has reached the quorum a TTL later", has_stayed, WITHIN_S, LOOK_EVERY_S)
        _until_written(writer, time.monotonic())
    watch.check()
    gap_s = writer.service(killed_s).longest_gap_s
    if pair.patronictl(primary, "history", SCOPE) != history:
        raise StoryError("the death of a node has changed the timeline")
    story.say(
        f"In {watch.looks} looks, {primary} was always primary, on the same timeline and never restarted. "
        f"The client waited {gap_s:.1f} s at most between two rows."
    )
    story.start(leader)
    pair.until_roles(primary, next(host for host in pair.hosts if host is not primary))


def _switch_over(pair: Pair, writer: RowWriter, primary: PatroniHost, standby: PatroniHost) -> None:
    pair.story.say(f"An administrator makes {standby} the primary.")
    began_s = time.monotonic()
    pair.patronictl(primary, "switchover", SCOPE, "--leader", primary.name, "--candidate", standby.name, "--force")
    pair.until_roles(standby, primary)
    _until_written(writer, time.monotonic())
    gap_s = writer.service(began_s).longest_gap_s
    pair.story.say(f"The client waited {gap_s:.1f} s for the new primary.")


def _until_written(writer: RowWriter, moment_s: float) -> None:
    wait_until("a row is acknowledged", lambda: writer.has_written_since(moment_s), WITHIN_S)
