"""The faults of scripts/check-linearizability as a table."""

from __future__ import annotations

import inspect

from docs.tables import first_sentence, table
from scripts.linearizability.fault_kinds import FAULTS


def faults_of_real_nodes() -> str:
    rows = ((f"`{name}`", first_sentence(inspect.getdoc(fault) or "")) for name, fault in FAULTS.items())
    return table(("fault", "what happens"), rows)
