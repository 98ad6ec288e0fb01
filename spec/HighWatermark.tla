---------------------------- MODULE HighWatermark ----------------------------
(* What a leader takes for committed, and how followers learn of it.           *)

EXTENDS Replication

\* How far a leader knows a member of its set to have synced.
\* Code: actors.context.replica_progress.ProgressTable.synced_end_offsets
SyncedEnd(l, member) ==
    LET own == IF Broken("the leader counts its unsynced end") THEN Len(log[l]) ELSE synced[l]
        ends == {IF r = l THEN own ELSE known[l][r] : r \in {s \in Replicas : Matches(member, s)}}
        byId == {IF r = l THEN own ELSE known[l][r] : r \in {s \in Replicas : IdOf[member] = IdOf[s]}}
    IN  IF Broken("commits count voters by their ids alone") THEN Max(byId) ELSE Max(ends)

\* The set that counts: the newest one, committed or not (rule R2).
\* Code: protocol.high_watermark.next_high_watermark
CommittingVoters(l) ==
    LET newest == VotersIn(l)
    IN  IF Broken("the old set counts until the new one is committed") /\ PreviousVoters(l) # {}
        THEN PreviousVoters(l)
        ELSE IF Broken("observers count for commits") THEN newest \cup {r \in Replicas : known[l][r] > 0}
        ELSE newest

\* The largest offset that a majority has synced.
\* Code: protocol.high_watermark.next_high_watermark
OnMajority(l) ==
    LET voters == CommittingVoters(l)
        holders(end) == {m \in voters : SyncedEnd(l, m) >= end}
        \* A leader outside its set does not count itself.
        needed == Cardinality(voters) \div 2 + 1
        enough(end) ==
            LET own == IF Broken("a leader outside its set counts itself") /\ ~IsVoter(voters, l) THEN 1 ELSE 0
                fewer == IF Broken("a commit needs one voter fewer") THEN 1 ELSE 0
            IN  Cardinality(holders(end)) + own >= needed - fewer
    IN  IF voters = {} THEN 0 ELSE Max({end \in 0..Len(log[l]) : enough(end) \/ end = 0})

\* Code: actors.replication.leader_replication.LeaderReplication._advance_high_watermark
AdvanceHighWatermark(l) ==
    LET end == OnMajority(l)
    IN  /\ IsUp(l) /\ role[l] = "Leader"
        /\ end > EpochStart(l) \/ Broken("records of older epochs are committed by counting")
        /\ end > hw[l] \/ (Broken("the high watermark follows the majority down") /\ end # hw[l])
        /\ hw' = [hw EXCEPT ![l] = end]
        /\ committed' = IF end > Len(committed)
                        THEN committed \o SubSeq(log[l], Len(committed) + 1, end) ELSE committed
        /\ commitEnd' = [commitEnd EXCEPT ![epoch[l]] = Max({@, end})]
        /\ UNCHANGED <<durable, directory, role, grants, contact, known, running, elected, made, spent>>

\* A Fetch response has the leader's high watermark.  The follower takes it for
\* committed as far as it has synced its log.  Without SyncsApart it does so in Fetch.
\* Code: actors.replication.follower_replication.FollowerReplication._apply
LearnHighWatermark(f, l) ==
    LET told == IF Broken("a follower takes the high watermark as it is told") THEN hw[l] ELSE Min(hw[l], synced[f])
    IN  /\ SyncsApart /\ MayFetch(f, l) /\ Agrees(f, l)
        /\ KnowsHighWatermark(l) \/ Broken("a new leader tells the high watermark it knew")
        /\ told > hw[f]
        /\ hw' = [hw EXCEPT ![f] = told]
        /\ UNCHANGED <<durable, directory, role, grants, contact, known, running, ghosts, spent>>

=============================================================================
