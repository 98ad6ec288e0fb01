----------------------------- MODULE Replication -----------------------------
(* Appends, Fetch, divergence and truncation, and what is synced (KIP-595).    *)

EXTENDS Epochs

\* A client's record.
\* Code: actors.replication.leader_replication.LeaderReplication._produce
AppendRecord(l) ==
    /\ IsUp(l) /\ role[l] = "Leader" /\ spent.records < MaxRecords
    /\ log' = [log EXCEPT ![l] = Append(@,
            IF Broken("a leader appends in the epoch of its log")
            THEN [Record(l, {}) EXCEPT !.epoch = IF Len(log[l]) > 1 THEN log[l][Len(log[l]) - 1].epoch ELSE @]
            ELSE Record(l, {}))]
    /\ made' = [made EXCEPT ![epoch[l]] = @ + 1]
    /\ Spend("records")
    /\ UNCHANGED <<durable, synced, start, base, snap, volatile, running, committed, commitEnd, elected>>

\* Code: storage.log.log.Log.sync
Sync(r) ==
    /\ IsUp(r) /\ synced[r] < Len(log[r])
    /\ synced' = [synced EXCEPT ![r] = Len(log[r])]
    /\ UNCHANGED <<durable, log, start, base, snap, volatile, running, ghosts, spent>>

-----------------------------------------------------------------------------

\* From where a follower fetches: the offset promises that all below is synced.
\* Code: actors.replication.replica_fetch.replica_fetch_request
MayFetch(f, l) ==
    /\ IsUp(f) /\ IsUp(l)
    /\ role[f] = "Follower" /\ leader[f] = l
    /\ role[l] = "Leader"
    /\ epoch[l] = epoch[f] \/ Broken("the epoch of a fetch is not looked at")
    /\ synced[f] = Len(log[f]) \/ Broken("a follower fetches before its fsync")

\* Whether the follower's log is the beginning of the leader's, by its end alone.
\* Code: protocol.reconciliation.check_fetch_position
Agrees(f, l) ==
    LET end == EndOfEpoch(log[l], LastEpoch(log[f]))
    IN  \/ log[f] = <<>>
        \/ end.epoch = LastEpoch(log[f]) /\ end.end >= Len(log[f])
        \/ Broken("divergence is never told")
        \/ Broken("only a log too long diverges") /\ Len(log[f]) <= Len(log[l])

\* Whether the leader's log does not reach back far enough to tell.  A replica keeps
\* one snapshot here, the newest.
\* Code: protocol.reconciliation.check_fetch_position
NeedsSnapshot(f, l) ==
    /\ snap[l].end > 0
    /\ \/ Len(log[f]) = 0
       \/ Len(log[f]) < start[l]
       \/ Len(log[f]) = start[l] /\ LastEpoch(log[f]) # log[l][snap[l].end].epoch
       \/ LastEpoch(log[f]) < log[l][snap[l].end].epoch

\* A Fetch from where the logs agree.  The leader notes the position, and the
\* follower appends the next record, which it then syncs.
\* Code: actors.replication.leader_replication.LeaderReplication._replica_fetch
Fetch(f, l) ==
    /\ MayFetch(f, l) /\ Agrees(f, l) /\ ~NeedsSnapshot(f, l)
    /\ known' = [known EXCEPT ![l][f] = Len(log[f])]
    /\ contact' = [contact EXCEPT ![f] = IF PreVotes /\ @ = "none" THEN "fetched" ELSE @]
    /\ log' = [log EXCEPT ![f] = IF Len(@) < Len(log[l]) THEN Append(@, log[l][Len(@) + 1]) ELSE @]
    /\ synced' = [synced EXCEPT ![f] = IF SyncsApart THEN @ ELSE Len(log'[f])]
    /\ hw' = [hw EXCEPT ![f] =
            IF SyncsApart \/ ~KnowsHighWatermark(l) THEN @ ELSE Max({@, Min(hw[l], Len(log'[f]))})]
    /\ <<known', contact', log', hw'>> # <<known, contact, log, hw>>
    /\ UNCHANGED <<durable, start, base, snap, role, grants, running, ghosts, spent>>

\* Where the follower's log must end after the leader told of its divergence.
\* Code: protocol.reconciliation.truncation_point
TruncationPoint(f, l) ==
    LET told == EndOfEpoch(log[l], LastEpoch(log[f]))
        own == EndOfEpoch(log[f], told.epoch)
    IN  IF own.epoch = told.epoch THEN Min(own.end, told.end) ELSE own.end

\* A Fetch from a position that the leader does not have.  The truncation is synced.
\* Code: actors.replication.follower_replication.FollowerReplication._truncate
Truncate(f, l) ==
    /\ MayFetch(f, l) /\ ~Agrees(f, l) /\ ~NeedsSnapshot(f, l)
    /\ ~Broken("a follower does not truncate")
    /\ LET end == IF Broken("a diverging log is truncated wholly") THEN 0 ELSE TruncationPoint(f, l)
       IN  /\ log' = [log EXCEPT ![f] = SubSeq(@, 1, end)]
           /\ synced' = [synced EXCEPT ![f] = end]
           /\ hw' = [hw EXCEPT ![f] = Min(@, end)]
    /\ IF Broken("a diverging follower counts as far as it says")
       THEN known' = [known EXCEPT ![l][f] = Len(log[f])]
       ELSE UNCHANGED known
    /\ UNCHANGED <<durable, start, base, snap, role, grants, contact, running, ghosts, spent>>

=============================================================================
