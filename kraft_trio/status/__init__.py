"""What a node serves over HTTP: metrics, health, its view of the quorum, and events.  Read-only, off by default."""
