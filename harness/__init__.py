"""Quorums of real `kraft server start` processes on loopback, for tests, benchmarks and scripts."""
