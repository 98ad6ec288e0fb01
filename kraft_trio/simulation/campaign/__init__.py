"""Many seeds: running, isolating, shrinking and reporting them."""
