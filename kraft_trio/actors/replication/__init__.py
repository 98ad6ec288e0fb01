"""Replication: the leader's appends, Fetch responses, high watermark and reads, and the follower's Fetch loop.

The replication task of the epoch owns the log's end; `LeaderReplication` owns replica progress and the high watermark.
Doors: `LeaderReplication` on a leader, `FollowerReplication` on a follower or observer.
"""
