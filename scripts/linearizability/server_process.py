"""Runs `kraft` in surroundings: python -m scripts.linearizability.server_process SURROUNDINGS kraft server start …"""

from __future__ import annotations

import sys
from functools import partial
from unittest import mock

import trio

from kraft_trio import cli
from kraft_trio.environment import Environment
from scripts.linearizability.surroundings import Surroundings

if __name__ == "__main__":
    surroundings = Surroundings.from_json(sys.argv[1])
    sys.argv[:] = sys.argv[2:]
    clock = surroundings.clock()
    environment = surroundings.environment(clock)
    with (
        mock.patch.object(Environment, "real", return_value=environment),
        mock.patch.object(trio, "run", partial(trio.run, clock=clock)),
    ):
        cli.main()
