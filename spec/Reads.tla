-------------------------------- MODULE Reads --------------------------------
(* Read barriers (docs/explanation/protocol.md#read-barriers): a leader gives  *)
(* its high watermark as a read index once a majority has returned a round     *)
(* that it was given after the read began.                                     *)
(*                                                                             *)
(* Here Fetches are messages, which may arrive after their senders have moved  *)
(* on, because that is what rounds are for.                                    *)

EXTENDS KRaft

CONSTANT MaxReads

VARIABLES
    newest,     \* of a leader: its newest round, or 0
    given,      \* of a leader: the round that it last gave to each replica
    confirmed,  \* of a leader: the round that each replica has last returned
    held,       \* the round in the last response of the replica's leader, or 0
    onTheWay,   \* the Fetches that have been sent, with the rounds in them
    reads       \* what has become of each read

readVars == <<newest, given, confirmed, held, onTheWay, reads>>

NoRounds == [r \in Replicas |-> 0]

InitReads ==
    /\ newest = [r \in Replicas |-> 0]
    /\ given = [r \in Replicas |-> NoRounds]
    /\ confirmed = [r \in Replicas |-> NoRounds]
    /\ held = [r \in Replicas |-> 0]
    /\ onTheWay = {}
    /\ reads = <<>>

\* What the tasks of a stay know ends with it.
Forget ==
    LET moved(r) == role'[r] # role[r] \/ epoch'[r] # epoch[r]
    IN  /\ newest' = [r \in Replicas |-> IF moved(r) THEN 0 ELSE newest[r]]
        /\ given' = [r \in Replicas |-> IF moved(r) THEN NoRounds ELSE given[r]]
        /\ confirmed' = [r \in Replicas |-> IF moved(r) THEN NoRounds ELSE confirmed[r]]
        /\ held' = [r \in Replicas |-> IF moved(r) THEN 0 ELSE held[r]]
        /\ UNCHANGED <<onTheWay, reads>>

\* Reads share a round until it is first given to a voter.
\* Code: protocol.read_barrier.ReadRounds.begin
NextRound(l) ==
    IF newest[l] = 0 THEN 1
    ELSE IF Broken("all reads share the round under way") THEN newest[l]
    ELSE IF \E f \in Replicas : given[l][f] = newest[l] THEN newest[l] + 1 ELSE newest[l]

\* The high watermark that the epoch has, or 0.
\* Code: actors.replication.leader_replication.LeaderReplication.high_watermark
ReadIndexOf(l) ==
    IF KnowsHighWatermark(l) \/ Broken("the high watermark of an older epoch is a read index") THEN hw[l] ELSE 0

\* Code: actors.replication.read_barriers.ReadBarriers.begin
BeginRead(l) ==
    /\ IsUp(l) /\ role[l] = "Leader" /\ Len(reads) < MaxReads
    /\ newest' = [newest EXCEPT ![l] = NextRound(l)]
    /\ reads' = Append(reads, [by |-> l, epoch |-> epoch[l], round |-> NextRound(l), index |-> ReadIndexOf(l),
                               atLeast |-> Len(committed), done |-> FALSE])
    /\ UNCHANGED <<vars, given, confirmed, held, onTheWay>>

\* A response to a voter's Fetch has the newest round.
\* Code: protocol.read_barrier.ReadRounds.give
GiveRound(l, f) ==
    /\ IsUp(l) /\ IsUp(f) /\ role[l] = "Leader" /\ newest[l] > 0
    /\ role[f] = "Follower" /\ leader[f] = l /\ epoch[f] = epoch[l]
    /\ IsVoter(VotersIn(l), f)
    /\ given' = [given EXCEPT ![l][f] = newest[l]]
    /\ held' = [held EXCEPT ![f] = newest[l]]
    /\ <<given', held'>> # <<given, held>>
    /\ UNCHANGED <<vars, newest, confirmed, onTheWay, reads>>

\* A Fetch returns the round that its sender holds.
\* Code: actors.replication.replica_fetch.replica_fetch_request
SendFetch(f) ==
    LET fetch == [from |-> f, to |-> leader[f], epoch |-> epoch[f], round |-> held[f]]
    IN  /\ IsUp(f) /\ role[f] = "Follower"
        /\ held[f] > 0 \/ Broken("a fetch of before the read counts")
        /\ fetch \notin onTheWay
        /\ onTheWay' = onTheWay \cup {fetch}
        /\ UNCHANGED <<vars, newest, given, confirmed, held, reads>>

\* Code: protocol.read_barrier.ReadRounds.confirm
ReceiveFetch(fetch) ==
    LET l == fetch.to
        f == fetch.from
        round == IF Broken("a fetch of before the read counts") THEN newest[l] ELSE fetch.round
    IN  /\ IsUp(l) /\ role[l] = "Leader" /\ epoch[l] = fetch.epoch
        /\ confirmed[l][f] < round
        /\ round <= given[l][f] \/ Broken("a fetch of before the read counts")
        /\ confirmed' = [confirmed EXCEPT ![l][f] = round]
        /\ UNCHANGED <<vars, newest, given, held, onTheWay, reads>>

\* Whether a majority of the newest set has confirmed the round.
\* Code: protocol.read_barrier.confirmed_round
IsConfirmed(l, round) ==
    \/ IsMajority(VotersIn(l), {f \in Replicas : f = l \/ confirmed[l][f] >= round})
    \/ Broken("a leader takes its word for it")

\* Code: actors.replication.read_barriers.ReadBarriers.answer
FinishRead(i) ==
    LET read == reads[i]
    IN  /\ ~read.done /\ IsUp(read.by) /\ role[read.by] = "Leader" /\ epoch[read.by] = read.epoch
        /\ ReadIndexOf(read.by) > 0 /\ IsConfirmed(read.by, read.round)
        /\ reads' = [reads EXCEPT ![i].done = TRUE, ![i].index = IF @ = 0 THEN ReadIndexOf(read.by) ELSE @]
        /\ UNCHANGED <<vars, newest, given, confirmed, held, onTheWay>>

NextWithReads ==
    \/ Next /\ Forget
    \/ \E l \in Replicas : BeginRead(l) \/ SendFetch(l)
    \/ \E l, f \in Replicas : GiveRound(l, f)
    \/ \E fetch \in onTheWay : ReceiveFetch(fetch)
    \/ \E i \in 1..Len(reads) : FinishRead(i)

\* The index of a read covers all that any leader had committed when it began.
\* Invariant LinearizableReads.
LinearizableReads == \A i \in 1..Len(reads) : reads[i].done => reads[i].index >= reads[i].atLeast

=============================================================================
