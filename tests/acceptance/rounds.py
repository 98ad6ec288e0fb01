"""How long the tests with rounds run."""

from __future__ import annotations

import os

from tests.support import sizes

ROUNDS = int(os.environ.get("KRAFT_ACCEPTANCE_ROUNDS", "4" if sizes.IS_ALL else "1"))
"""How many leaders, or nodes in the middle of a snapshot, each such test kills."""
