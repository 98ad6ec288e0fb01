"""What the quorum costs and how it compares, measured side by side on one machine.  `benchmarks/run --help`."""
