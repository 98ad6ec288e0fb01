"""Two controllers of Apache Kafka's and a witness of ours: each is repaired with the commands of its own program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import trio

from kraft_trio.simulation.network.link_faults import FrameFate, frames_of
from kraft_trio.wire.api import FETCH
from tests.situations.site import QUIET_S, Site
from tests.situations.staged import Play, staged

WITNESS: Final = 3
CONTROLLERS: Final = (1, 2)
TWO_AND_A_WITNESS: Final[dict[str, Any]] = {
    "voters": 3,
    "kafka_replicas": CONTROLLERS,
    "witnesses": (WITNESS,),
    "settings": {"kraft.kafka.records": "any"},  # The nodes that do Kafka's work write its records.
}
START_KAFKAS: Final = "bin/kafka-server-start.sh FILE"
START_OURS: Final = "kraft server start -c FILE"


def mixed(name: str, **row: Any) -> Callable[[Play], Play]:
    """A row with voters in the log."""
    return staged(name, **{**TWO_AND_A_WITNESS, **row})


def both(name: str, **row: Any) -> Callable[[Play], Play]:
    """Two rows, the second one with static voters."""

    def add(play: Play) -> Play:
        return mixed(f"{name}, with static voters", kraft_version=0, **row)(mixed(name, **row)(play))

    return add


def standby(site: Site) -> int:
    """The controller that is not active."""
    assert site.leader in CONTROLLERS
    return sum(CONTROLLERS) - site.leader


async def explained(site: Site) -> None:
    await trio.sleep(QUIET_S)
    await site.explain()


async def started_as_told(site: Site, down: int) -> None:
    """The directory of a static voter that the leader has never heard is looked at before it is started."""
    command = site.command_of(f"Voter {down} is")
    if "explain" in command:
        assert command.endswith("explain -c FILE")
        await site.copy(command, on=down)
        command = site.command("no-majority" if "no-majority" in site.codes else "voter-behind")
        assert str(site.file_of(down)) in command
    assert command.startswith("bin/kafka-server-start.sh" if down in site.kafkas else "kraft server start")
    await site.copy(command, on=down)


# Somebody is down


@both("a controller of Kafka's is down, beside a witness")
async def controller_down(site: Site) -> None:
    await is_started_again(site, standby(site), START_KAFKAS)


@both("a witness beside Kafka's controllers is down")
async def witness_down(site: Site) -> None:
    await is_started_again(site, WITNESS, START_OURS)


async def is_started_again(site: Site, down: int, command: str) -> None:
    await site.stop(down)
    await explained(site)
    assert site.codes == ("survival", "voter-behind", "no-broker")
    assert site.command("voter-behind") == command
    site.is_advised = True
    await site.copy(command, on=down)


@mixed("a witness is down, and its file is given")
async def file_of_the_witness(site: Site) -> None:
    await site.stop(WITNESS)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=WITNESS)
    site.is_advised = True
    assert site.command("voter-behind") == f"kraft server start -c {site.file_of(WITNESS)}"
    await site.copy(site.command("voter-behind"), on=WITNESS)


@mixed("a controller of Kafka's is down, and its file is given")
async def file_of_the_controller(site: Site) -> None:
    down = standby(site)
    await site.stop(down)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=down)
    site.is_advised = True
    assert site.command("voter-behind") == f"bin/kafka-server-start.sh {site.file_of(down)}"
    await site.copy(site.command("voter-behind"), on=down)


@mixed("a witness and a controller of four are down", voters=5, kafka_replicas=(1, 2, 3, 4), witnesses=(5,))
async def one_of_each_down(site: Site) -> None:
    """Each is started as what it is, also if the file of one of them is given."""
    down = next(id for id in site.followers if id != 5)
    await site.stop(down, 5)
    await trio.sleep(QUIET_S)
    await site.explain(with_file_of=down)
    site.is_advised = True
    await site.copy(site.command_of("Voter 5 is"), on=5)
    await site.copy(site.command_of(f"Voter {down} is"), on=down)


@both("the active controller and the witness are down", keeps=CONTROLLERS)
async def one_controller_left(site: Site) -> None:
    """It tells no voters, but who has registered."""
    left, active = standby(site), site.leader
    await site.stop(active, WITNESS)
    await explained(site)
    assert site.codes == ("no-majority",), site.told
    site.says("Start one of them. Only if their disks are lost for good")
    site.is_advised = True
    await site.copy(site.command("no-majority"), on=WITNESS)
    site.is_advised = False
    await explained(site)
    assert "critical" not in {one.severity for one in site.told}, left
    await started_as_told(site, active)


@both("only the witness is left", keeps=(WITNESS,))
async def witness_left(site: Site) -> None:
    """Both controllers have what it has, so either makes a majority, and is active."""
    await site.stop(*CONTROLLERS)
    await explained(site)
    assert site.codes == ("no-majority",)
    site.is_advised = True
    await site.copy(site.command("no-majority"), on=2)
    await explained(site)
    assert site.leader == 2
    await started_as_told(site, 1)


@both("all controllers and the witness are down")
async def all_down(site: Site) -> None:
    await site.stop(1, 2, 3)
    await site.explain()
    assert site.codes == ("no-answer",)
    site.is_advised = True
    command = site.command("no-answer")
    for node_id in (1, 2, 3):
        await site.copy(command, on=node_id)


# The witness leads


@both("a witness leads, and the controller that it waits for hangs")
async def witness_leads(site: Site) -> None:
    """It alone has what the controller missed.  No controller is active until one has it."""
    active, behind = site.leader, standby(site)
    await site.stop(behind)
    leader = site.cluster.leader()
    assert leader is not None
    await leader.append([site.written[0]])
    await site.stop(active)
    to_the_witness = frames_of(FETCH, is_request=True, source=site.cluster.machines[behind].host)
    site.cluster.network.plan(to_the_witness, FrameFate.RESET, times=1000)
    await site.start(behind)
    await site.cluster.wait_until(lambda: (node := site.cluster.leader()) is not None and node.key.id == WITNESS)
    site.cluster.machines[behind].pause()
    site.cluster.network.forget_plans()
    await site.explain()
    assert "witness-leads" in site.codes, site.told
    site.says(f"Node {WITNESS} leads, and is a witness: nothing can be written")
    site.says(f"Start the other voters ({active}, {behind}).")
    site.is_advised = True
    await site.stop(behind)
    await started_as_told(site, behind)
    await explained(site)
    assert site.leader == behind
    await started_as_told(site, active)


@mixed("a witness was never started", started=CONTROLLERS, writes=False)
async def never_started(site: Site) -> None:
    await site.write()
    await explained(site)
    assert set(site.codes) == {"survival", "voter-behind", "not-registered", "no-broker"}
    site.says(f"Voter {WITNESS} is not registered with the active controller, node {site.leader}. It registers once")
    site.is_advised = True
    await site.copy(site.command("voter-behind"), on=WITNESS)
    await explained(site)
    assert set(site.codes) == {"survival", "no-broker"}


# Disks


@mixed("the disk of a controller of Kafka's is blank")
async def blank_controller(site: Site) -> None:
    await _blank(site, standby(site))
    assert "other-directory" in site.codes
    site.is_advised = True
    await site.copy(site.command("other-directory"))


@mixed("the disk of a witness is blank")
async def blank_witness(site: Site) -> None:
    await _blank(site, WITNESS)
    assert "other-directory" in site.codes
    site.is_advised = True
    await site.copy(site.command("other-directory"))


async def _blank(site: Site, *node_ids: int) -> None:
    await site.stop(*node_ids)
    site.blank_disk(*node_ids)
    await site.start(*node_ids)
    await explained(site)


@mixed("the disks of a controller and of the witness are blank", keeps=CONTROLLERS)
async def blank_majority(site: Site) -> None:
    left, active = standby(site), site.leader
    await site.stop(active)
    await _blank(site, active, WITNESS)
    assert "other-disks" in site.codes, site.told
    site.says(f"Leave node {left} as it is: nobody else may have the records.")
    for node_id in (active, WITNESS):
        await site.stop(node_id)
        site.mount_again(node_id)
        await site.start(node_id)


async def _replaced_as_told(site: Site, lost: int, tool: str) -> None:
    """The disk is gone: a blank one is formatted, the node is started and replaced, each by what is printed."""
    await site.stop(lost)
    site.move_away(lost)
    await explained(site)
    told = site.says(f"Voter {lost} is offline")
    formatting, replacing = re.findall("`((?:kraft|bin/kafka-storage.sh) [^`]*)`", told.text)
    assert formatting.startswith(tool)
    site.is_advised = True
    await site.copy(formatting, on=lost)
    await site.copy(site.command_of(f"Voter {lost} is offline"), on=lost)
    await trio.sleep(QUIET_S)
    await site.copy(replacing)


@mixed("the disk of a controller of Kafka's is lost")
async def lost_controller(site: Site) -> None:
    await _replaced_as_told(site, standby(site), "bin/kafka-storage.sh format")


@mixed("the disk of a witness is lost")
async def lost_witness(site: Site) -> None:
    await _replaced_as_told(site, WITNESS, "kraft storage format")


# Wrong files


@both("a witness announces a dead address")
async def dead_address(site: Site) -> None:
    await site.stop(WITNESS)
    site.cluster.misadvertise([WITNESS])
    await site.start(WITNESS)
    await explained(site)
    assert "dead-address" in site.codes
    site.says(f"Nobody listens at node-{WITNESS}:")
    site.is_advised = True
    site.cluster.misadvertise([WITNESS], end=True)
    await site.stop(WITNESS)
    await site.start(WITNESS)


@both("a controller of Kafka's announces a dead address")
async def dead_address_of_kafkas(site: Site) -> None:
    """It does not look itself whether anybody listens there, but registers it."""
    wrong = standby(site)
    await site.stop(wrong)
    site.cluster.misadvertise([wrong])
    await site.start(wrong)
    await explained(site)
    site.says(f"Nobody listens at node-{wrong}:9, where node {wrong} is said to listen, but the leader hears it.")
    site.says(f"Nobody names the node at node-{wrong}:9093: if that is node {wrong}, correct `advertised.listeners`")
    site.is_advised = True
    site.cluster.misadvertise([wrong], end=True)
    await site.stop(wrong)
    await site.start(wrong)


@mixed("an observer of ours does not find Kafka's controllers", observers=1)
async def bootstrap_leads_nowhere(site: Site) -> None:
    await _lost_observer(site)
    told = site.says("names nobody:9093, which does not lead to node")
    assert told.code == "no-way-to-leader"


@mixed("a controller of Kafka's that is no voter does not find the others", observers=1, kafka_replicas=(1, 2, 4))
async def bootstrap_of_kafkas(site: Site) -> None:
    """It tells neither its list nor its voters."""
    await _lost_observer(site)
    assert "no-way-to-leader" in site.codes, site.told


async def _lost_observer(site: Site) -> None:
    cluster = site.cluster
    await site.stop(4)
    site.blank_disk(4)
    cluster.write_keys(4, controller_quorum_bootstrap_servers="nobody:9093")
    for node_id in (1, 2, 3):  # A leader announces itself.
        cluster.network.one_way(cluster.machines[node_id].host, cluster.machines[4].host)
    await site.start(4)
    await explained(site)
    site.is_advised = True
    await site.stop(4)
    cluster.heal()
    cluster.write_keys(4, controller_quorum_bootstrap_servers=str(cluster.endpoint_of(site.leader)))
    told = site.told
    await site.start(4)
    await explained(site)
    assert "no-way-to-leader" not in site.codes
    site.told = told


@mixed("a controller of Kafka's of another cluster answers", observers=1, kafka_replicas=(1, 2, 4), invariants=())
async def another_cluster(site: Site) -> None:
    """It has no metadata, and tells no cluster id."""
    await site.stop(4)
    site.move_away(4)
    other = ("--no-initial-controllers", "-t", "another-cluster-000000")
    await site._format("storage", "format", "-c", str(site.file_of(4)), *other, on=4)
    site.cluster.machines[4].excuse("its cluster is another")
    await site.start(4)
    await explained(site)
    assert site.codes[0] == "clusters", site.told
    site.says("node 4 to another one. Ask those of one cluster, and correct the addresses that led to the others.")
    assert "no-way-to-leader" not in site.codes
    await site.stop(4)


# Pauses


@both("a controller of Kafka's hangs")
async def controller_hangs(site: Site) -> None:
    hanging = standby(site)
    site.cluster.machines[hanging].pause()
    await explained(site)
    assert site.codes == ("survival", "voter-behind", "no-broker")
    site.says("restart it if it hangs")
    site.is_advised = True
    await site.stop(hanging)
    await site.copy(site.command("voter-behind"), on=hanging)


@both("the active controller hangs, and the other one takes over")
async def active_hangs(site: Site) -> None:
    hanging = site.leader
    site.cluster.machines[hanging].pause()
    await explained(site)
    assert site.leader == sum(CONTROLLERS) - hanging
    assert site.codes == ("survival", "voter-behind", "no-broker")
    site.cluster.machines[hanging].resume()
    await explained(site)
    assert site.codes == ("no-broker", "survival")
