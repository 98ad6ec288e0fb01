"""Commands that ask a running quorum, and change its voters: `kraft metadata-quorum` and `kraft features`."""
