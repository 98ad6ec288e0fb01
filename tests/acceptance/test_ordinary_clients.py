"""Kafka's ordinary clients write with acks=all while leaders die; nothing they were told is kept gets lost."""

from __future__ import annotations

import pytest

from harness.quorum import Quorum
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.readers import assert_written_once_in_order, read_with_every_client, read_with_kcat
from tests.acceptance.rounds import ROUNDS
from tests.acceptance.writers import KCAT, all_writers, wait_for_progress, writing
from tests.support import sizes


def kill_the_leader_and_restart_it(quorum: Quorum) -> None:
    """After this another node leads, and the old leader, back again, has everything that the new one has committed."""
    old = quorum.leader()
    old.kill()
    quorum.leader(besides=old.id)
    quorum.start([old.id])
    committed = quorum.described_by_leader()[1].high_watermark
    quorum.wait_until_holds(old.id, committed)


@pytest.mark.parametrize(("voters", "observers"), sizes.part([(3, 0), (5, 0), (3, 1)], 3))
def test_acknowledged_records_survive_killed_leaders_and_quorums(
    make_quorum: MakeQuorum, voters: int, observers: int
) -> None:
    quorum = make_quorum(voters, observers)
    quorum.start()
    quorum.leader()
    writers = all_writers(quorum.bootstrap_servers)
    with writing(writers):
        wait_for_progress(writers)
        for _ in range(ROUNDS):
            kill_the_leader_and_restart_it(quorum)
            wait_for_progress(writers)
        quorum.kill_all()
        quorum.start()
        wait_for_progress(writers)
    records = read_with_every_client(quorum.bootstrap_servers)
    assert_written_once_in_order(records, writers)
    quorum.assert_logs_equal()


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed; the other tests go without it, too")
def test_kcat_reads_what_was_committed(make_quorum: MakeQuorum) -> None:
    quorum = make_quorum(1)
    quorum.start()
    offset = quorum.produce(["one", "two"])
    assert read_with_kcat(quorum.bootstrap_servers) == [(offset, "one"), (offset + 1, "two")]
