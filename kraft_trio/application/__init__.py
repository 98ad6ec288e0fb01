"""An application's state machine, its snapshots and its serde."""
