"""How long the tests with rounds run."""

from __future__ import annotations

import os

ROUNDS = int(os.environ.get("KRAFT_ACCEPTANCE_ROUNDS", "2"))
"""How many leaders, or nodes in the middle of a snapshot, each such test kills."""
