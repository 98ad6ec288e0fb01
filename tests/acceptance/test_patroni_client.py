"""Patroni's client of etcd uses three nodes, without PostgreSQL; test_patroni.py runs all of Patroni."""

from __future__ import annotations

import json
import sys

import pytest

from harness.waiting import WAIT_SECONDS
from tests.acceptance.conftest import MakeQuorum
from tests.acceptance.kv_quorum import make_kv_quorum
from tests.support.programs import run

pytest.importorskip("patroni.dcs.etcd3", reason="Patroni is not installed: pip install 'patroni[etcd3]'")


def test_two_hosts_agree_who_leads(make_quorum: MakeQuorum) -> None:
    kv = make_kv_quorum(make_quorum, is_steady=True)
    gateways = [f"127.0.0.1:{port}" for port in kv.ports.values()]
    output = run([sys.executable, "-m", "tests.acceptance.patroni_hosts", *gateways], seconds=10 * WAIT_SECONDS)
    assert json.loads(output) == {
        "both initialize": [True, False],
        "the system id is set": True,
        "both are members": [True, True],
        "both want the lock": [True, False],
        "a sees": ["7", "a", ["a", "b"]],
        "b sees": ["7", "a", ["a", "b"]],
        "the leader renews its lock": True,
        "another does not": False,
        "the log's end is seen": True,
        "a failover is asked for": True,
        "the leader sees it": ["a", "b"],
        "it is changed by its version": True,
        "that version is gone": False,
        "the leader gives up its lock": True,
        "the watch wakes the other": True,
        "now it gets the lock": [True, False],
        "the cluster is deleted": True,
    }
