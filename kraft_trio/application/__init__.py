"""What an embedding application brings or uses: its state machine, the snapshots of its state, and its serde."""
