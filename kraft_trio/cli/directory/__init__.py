"""Commands on a node's directory: `kraft storage`, and the last-resort recovery of a stopped node."""
