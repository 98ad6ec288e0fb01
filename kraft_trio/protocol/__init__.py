"""The rules of the protocol as pure functions: roles, votes, reconciliation, the high watermark, voter sets, waits."""
