"""Each incident of docs/how-to/runbook.md, with Apache Kafka's controllers: the commands of the page repair it."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harness.command import kraft
from harness.kafka import kafka_version
from harness.waiting import wait_until
from tests.acceptance.mounts import small_disk
from tests.interop.runbook_page import KAFKA, KRAFT, PAGE, read_page
from tests.interop.runbook_site import BROKER, SECONDS, WITNESS, Site

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(kafka_version() < (4, 1), reason="needs controllers that raise kraft.version"),
]

INCIDENTS = read_page().incidents
both_columns = pytest.mark.parametrize("column", [KAFKA, KRAFT])


@pytest.fixture
def make_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    made: list[Site] = []

    def make(*arguments: Any, **options: Any) -> Site:
        made.append(Site(tmp_path, *arguments, **options))
        return made[0]

    yield make
    for site in made:
        site.stop()


def status(site: Site) -> dict[str, Any] | None:
    """What the leader says of the quorum; None without a leader."""
    done = kraft("metadata-quorum", "--bootstrap-controller", site.servers(), "describe", "--status", "--json")
    if done.returncode != 0:
        return None
    described: dict[str, Any] = json.loads(done.stdout)
    return described if (described["highWatermark"] or -1) >= 0 else None


def voters(site: Site) -> dict[int, str]:
    """The directory ids of the voters by id; empty without a leader."""
    described = status(site)
    return {} if described is None else {voter["id"]: voter["directoryId"] for voter in described["currentVoters"]}


def until_all_follow(site: Site, *node_ids: int) -> int:
    """Wait until these are the voters, and have what is committed.  Returns the leader."""

    def followed() -> int | None:
        done = kraft("metadata-quorum", "--bootstrap-controller", site.servers(), "describe", "--replication", "--json")
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        of_voters = [row for row in rows if row["status"] in ("Leader", "Follower")]
        # Controllers write a record every half second.
        if {row["nodeId"] for row in of_voters} != set(node_ids) or any(row["lag"] > 5 for row in of_voters):
            return None
        [leader] = [row["nodeId"] for row in of_voters if row["status"] == "Leader"]
        return int(leader)

    return wait_until(f"{node_ids} follow", followed, SECONDS, interval_seconds=0.3)


def start_all(site: Site) -> None:
    """The controllers, and then the broker: it gives up if it is not registered within a minute."""
    site.start(*site.controllers)
    until_all_follow(site, *site.controllers)
    site.start(BROKER)


def until_explained(site: Site, sentence: str) -> None:
    """Wait until `explain` says what the page says that it says."""
    assert f"`{sentence}`" in PAGE.read_text()
    command = ("metadata-quorum", "--bootstrap-controller", site.servers(), "explain")
    wait_until(sentence, lambda: sentence in kraft(*command).stdout, SECONDS, interval_seconds=0.3)


def until_logged(site: Site, node_id: int, sentence: str) -> None:
    """Wait until a node's own log says what the page says that it says."""
    assert f"`{sentence}" in PAGE.read_text()
    wait_until(sentence, lambda: sentence in site.said(node_id), SECONDS)


def test_one_controller_is_dead(make_site: Callable[..., Site]) -> None:
    site = make_site()
    start_all(site)
    site.create_topic("before")
    site.end(2)
    site.create_topic("without")
    until_explained(site, "Voter 2 is offline")

    def look_at_the_topics() -> None:
        site.create_topic("after")
        site.until_listed({"before", "without", "after"})
        site.end(BROKER)

    site.play(INCIDENTS["One controller is dead"], KRAFT, 2, {"check": look_at_the_topics})
    until_all_follow(site, *site.controllers)


@both_columns
def test_the_majority_is_dead(make_site: Callable[..., Site], column: str) -> None:
    site = make_site()
    start_all(site)
    site.create_topic("before")
    wait_until("3 has the topic", lambda: b"before" in metadata_log(site, 3), SECONDS)
    site.end(1, 2)
    wait_until("no controller leads", lambda: status(site) is None, SECONDS)
    for node_id in (1, 2):
        shutil.rmtree(site.folder(node_id))
    site.play(INCIDENTS["The majority is dead"], column, 3, {})
    site.create_topic("after")
    site.until_listed({"before", "after"})
    site.play(INCIDENTS["The majority is dead +"], column, 2, {})
    until_all_follow(site, 2, 3)
    site.create_topic("with-a-new-one")
    assert "offline" not in site.play(INCIDENTS[""], column, 2, {})


def metadata_log(site: Site, node_id: int) -> bytes:
    return b"".join(path.read_bytes() for path in (site.folder(node_id) / "__cluster_metadata-0").glob("*.log"))


@both_columns
def test_a_disk_is_lost(make_site: Callable[..., Site], column: str) -> None:
    site = make_site()
    site.start(*site.controllers)
    until_all_follow(site, *site.controllers)
    old = site.directory_id(2)
    lose(site, 2)
    site.play(INCIDENTS["A disk is lost"], column, 2, {}, OLD=old)
    until_all_follow(site, *site.controllers)
    assert voters(site)[2] == site.directory_id(2) != old
    site.end(3)
    wait_until("the new disk makes a majority", lambda: leads_now(site, besides=3), SECONDS)


def test_a_disk_is_lost_with_static_voters(make_site: Callable[..., Site]) -> None:
    site = make_site(static=True)
    site.start(*site.controllers)
    until_all_follow(site, *site.controllers)
    lose(site, 2)
    site.play(INCIDENTS["With static voters"], KRAFT, 2, {})
    until_all_follow(site, *site.controllers)
    site.end(3)
    wait_until("the new disk makes a majority", lambda: leads_now(site, besides=3), SECONDS)


def leads_now(site: Site, besides: int) -> bool:
    """Whether a leader other than a dead one commits what is written now."""
    before = status(site)
    after = status(site)
    return (
        before is not None
        and after is not None
        and after["leaderId"] != besides
        and before["highWatermark"] < after["highWatermark"]
    )


def test_a_disk_is_full(make_site: Callable[..., Site]) -> None:
    site = make_site()
    with small_disk(site.folder(2)):
        site.start(*site.controllers)
        until_all_follow(site, *site.controllers)
        others = site.folder(2) / "others"
        with suppress(OSError), others.open("wb", buffering=0) as file:
            while file.write(bytes(2**16)):
                pass
        site.until_ended(2)
        until_logged(site, 2, "No space left on device")
        said = site.play(INCIDENTS["A disk is full"], KRAFT, 2, {"start it": others.unlink})
        assert "100%" in said
        until_all_follow(site, *site.controllers)
        site.end(2)


def test_a_disk_is_blank(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.start(*site.controllers)
    until_all_follow(site, *site.controllers)
    old, mounted = site.directory_id(2), site.folder(2).with_name("mounted")
    site.end(2)
    site.folder(2).rename(mounted)
    site.sh("kafka-storage.sh format -t $CLUSTER -c $FILE --no-initial-controllers", **site.variables(2))
    site.start(2)
    wait_until("it observes", lambda: 2 in observers(site), SECONDS)

    def mount() -> None:
        shutil.rmtree(site.folder(2))
        mounted.rename(site.folder(2))

    said = site.play(INCIDENTS["A disk is blank"], KRAFT, 2, {"start it": mount})
    assert said.count("Observer") > 0
    until_all_follow(site, *site.controllers)
    assert voters(site)[2] == old
    site.end(3)
    wait_until("the old disk makes a majority", lambda: leads_now(site, besides=3), SECONDS)


def observers(site: Site) -> list[int]:
    described = status(site)
    return [] if described is None else [replica["id"] for replica in described["currentObservers"]]


def test_the_bootstrap_list_is_wrong(make_site: Callable[..., Site]) -> None:
    site = make_site((1,))
    site.start(1)
    until_all_follow(site, 1)
    site.write_properties(BROKER, controller_quorum_bootstrap_servers="127.0.0.1:1,127.0.0.1:2")
    site.start(BROKER)
    until_logged(site, BROKER, "Connection to node -2 ")
    said = site.play(INCIDENTS["The bootstrap list is wrong"], KRAFT, BROKER, {})
    assert "names 127.0.0.1:1, 127.0.0.1:2: if the controllers listen elsewhere, name them there" in said
    site.create_topic("after")


@both_columns
def test_static_voters_become_dynamic(make_site: Callable[..., Site], column: str) -> None:
    site = make_site((1, 2), static=True)
    start_all(site)
    site.create_topic("before")
    steps = INCIDENTS["From static to dynamic voters"]
    site.play(steps[:2], column, 1, {})
    for node_id in (1, 2, BROKER):
        site.play(steps[2:], column, node_id, {})
    site.create_topic("after")
    site.until_listed({"before", "after"})
    assert voters(site) == {node_id: site.directory_id(node_id) for node_id in (1, 2)}


def test_voters_that_were_left_out_too_early_are_put_back(make_site: Callable[..., Site]) -> None:
    site = make_site((1, 2), static=True)
    site.start(1, 2)
    until_all_follow(site, 1, 2)
    before = {node_id: site.properties(node_id).read_text() for node_id in (1, 2)}
    [_, _, correct, stop, start, _] = INCIDENTS["From static to dynamic voters"]
    for node_id in (1, 2):
        site.play([correct, stop, start], KRAFT, node_id, {})
    wait_until("both listen", lambda: all(listens(site, node_id) for node_id in (1, 2)), SECONDS)
    assert status(site) is None
    explain = "kraft metadata-quorum --bootstrap-controller $SERVERS explain"

    def is_told() -> bool:
        return "put controller.quorum.voters back" in site.sh(explain, may_fail=True, **site.variables(1))

    wait_until("it is told what to put back", is_told, SECONDS, interval_seconds=1)
    for node_id in (1, 2):
        site.properties(node_id).write_text(before[node_id])
        site.play([stop, start], KRAFT, node_id, {})
    until_all_follow(site, 1, 2)


def listens(site: Site, node_id: int) -> bool:
    done = kraft("metadata-quorum", "--bootstrap-controller", site.address(node_id), "describe", "--status")
    return "refused" not in done.stdout + done.stderr


SNAPSHOTS = {"metadata.log.max.record.bytes.between.snapshots": 2000}


def test_a_broker_has_the_newest_copy_of_the_metadata(make_site: Callable[..., Site], tmp_path: Path) -> None:
    site = make_site((1,))
    start_all(site)
    site.create_topic("before")
    wait_until("the broker has the topic", lambda: b"before" in metadata_log(site, BROKER), SECONDS)
    lose(site, 1)

    def copy() -> None:
        copied = tmp_path / "copy"
        copied.mkdir()
        for pattern in ("*.log", "*.checkpoint"):
            for path in (site.folder(BROKER) / "__cluster_metadata-0").glob(pattern):
                shutil.copy(path, copied)

    steps = INCIDENTS["All controllers are lost"]
    site.play(steps, KRAFT, 1, {"copy files": copy}, COPY=str(tmp_path / "copy"))
    site.create_topic("after")
    site.until_listed({"before", "after"})


def test_a_backup_lacks_what_came_after_it(make_site: Callable[..., Site], tmp_path: Path) -> None:
    site = make_site((1,), settings=SNAPSHOTS)
    start_all(site)
    site.create_topic("before")
    wait_until("a snapshot has the topic", lambda: any(b"before" in data for data in snapshots(site, 1)), SECONDS)
    backups = tmp_path / "backups"
    backups.mkdir()
    site.play(INCIDENTS["Backup"], KRAFT, 1, {}, COPY=str(backups))
    site.create_topic("late")
    lose(site, 1)

    def copy() -> None:
        (tmp_path / "copy").mkdir()
        for path in backups.glob("*.checkpoint"):
            shutil.copy(path, tmp_path / "copy")

    site.play(INCIDENTS["All controllers are lost"], KRAFT, 1, {"copy files": copy}, COPY=str(tmp_path / "copy"))
    until_logged(site, BROKER, "The leader requested truncation")
    site.until_ended(BROKER)
    aside = tmp_path / "aside"
    aside.mkdir()
    site.play(INCIDENTS["Brokers that know more"], KRAFT, BROKER, {}, COPY=str(aside))
    site.create_topic("after")
    site.until_listed({"before", "after"})
    assert "late" not in site.listed_topics()
    assert any(path.name.endswith("-stray") for path in site.folder(BROKER).iterdir())


def snapshots(site: Site, node_id: int) -> list[bytes]:
    found = (site.folder(node_id) / "__cluster_metadata-0").glob("*.checkpoint")
    return [path.read_bytes() for path in found]


def lose(site: Site, node_id: int) -> None:
    site.end(node_id)
    shutil.rmtree(site.folder(node_id))


@both_columns
def test_a_witness_is_added_leads_for_a_moment_and_is_retired(make_site: Callable[..., Site], column: str) -> None:
    site = make_site((1, 2), witness=True)
    start_all(site)
    site.create_topic("before")
    site.play(INCIDENTS["Add a witness"], column, WITNESS, {})

    active = until_all_follow(site, 1, 2, WITNESS)
    [behind] = {1, 2} - {active}
    site.end(behind)
    site.create_topic("missed")
    site.end(active)
    steps = INCIDENTS["The witness leads"]
    site.play(steps, column, behind, {})
    site.create_topic("without")
    assert f"a witness hands over to node {behind}" in site.said(WITNESS)
    site.play(steps, column, active, {})
    until_all_follow(site, 1, 2, WITNESS)

    retire = INCIDENTS["Retire the witness"]
    by_hand = {"stop its process": lambda: site.end(WITNESS, how=signal.SIGTERM)}
    site.play(retire, column, WITNESS, by_hand, OLD=site.directory_id(WITNESS))
    until_all_follow(site, 1, 2)
    site.create_topic("after")
    site.until_listed({"before", "missed", "without", "after"})
