------------------------------- MODULE Leases --------------------------------
(* Read leases (docs/explanation/protocol.md#read-leases): a leader answers    *)
(* reads at once while no other leader can commit.                             *)
(*                                                                             *)
(* Time is real time in ticks, and each clock is slow or fast by the whole     *)
(* drift.  The constants are durations of real time by such clocks.  With a    *)
(* drift of one third and a wait of 4: a lease of 4 * (2/3) / (4/3) = 2 really *)
(* lasts 3 by a slow clock, and a wait really lasts 3 by a fast one.           *)

EXTENDS KRaft

CONSTANTS
    MaxTime,        \* large, where LeaseView makes the states few
    Drifts,         \* the rates that clocks may have, of {"slow", "fast"}
    Leasing         \* the replicas that have the key kraft.read.lease.max.clock.drift.ppm

VARIABLES
    now,
    rate,       \* of each replica's clock
    began,      \* of a leader: when its newest round began
    returned,   \* of a leader: the replicas that have returned that round
    promised,   \* of a leader: the replicas that have promised to wait, in its epoch
    lease,      \* of a leader: when the newest confirmed round began, or -1
    waits       \* of a leader: until when it commits nothing

leaseVars == <<now, rate, began, returned, promised, lease, waits>>

\* Code: protocol.read_lease.lease_ms
LeaseOf(r) ==
    IF Broken("a lease lasts as long as the wait")
    THEN IF rate[r] = "slow" THEN 6 ELSE 3
    ELSE IF rate[r] = "slow" THEN 3 ELSE 2

\* Code: protocol.read_lease.promised_wait_ms
WaitOf(r) ==
    IF r \notin Leasing \/ Broken("a new leader does not wait for leases") THEN 0
    ELSE IF rate[r] = "slow" THEN 6 ELSE 3

InitLeases ==
    /\ now = 0
    /\ rate \in [Replicas -> Drifts]
    /\ began = [r \in Replicas |-> 0]
    /\ returned = [r \in Replicas |-> {}]
    /\ promised = [r \in Replicas |-> {}]
    /\ lease = [r \in Replicas |-> -1]
    /\ waits = [r \in Replicas |-> 0]

Tick ==
    /\ now < MaxTime
    /\ now' = now + 1
    /\ UNCHANGED <<vars, rate, began, returned, promised, lease, waits>>

\* A leader begins a round whenever a read asks for one.
\* Code: protocol.read_lease.ReadLease.round_began
BeginRound(l) ==
    /\ IsUp(l) /\ role[l] = "Leader" /\ l \in Leasing
    /\ <<began[l], returned[l]>> # <<now, {}>>
    /\ began' = [began EXCEPT ![l] = now]
    /\ returned' = [returned EXCEPT ![l] = {}]
    /\ UNCHANGED <<vars, now, rate, promised, lease, waits>>

\* A voter sends a Fetch with the round, and what it promises.  If the Fetch arrives
\* late, the lease is shorter.
\* Code: protocol.read_lease.ReadLease.promise
ReturnRound(f, l) ==
    /\ IsUp(f) /\ IsUp(l) /\ role[l] = "Leader" /\ l \in Leasing
    /\ role[f] = "Follower" /\ leader[f] = l /\ epoch[f] = epoch[l]
    /\ f \notin returned[l]
    /\ returned' = [returned EXCEPT ![l] = @ \cup {f}]
    /\ promised' = [promised EXCEPT ![l] = IF f \in Leasing THEN @ \cup {f} ELSE @]
    /\ lease' = [lease EXCEPT ![l] =
            IF IsMajority(VotersIn(l), returned[l] \cup {f, l}) THEN began[l] ELSE @]
    /\ UNCHANGED <<vars, now, rate, began, waits>>

\* There is no lease if a voter has promised nothing, while a voter set is uncommitted,
\* before the epoch's first commit, or if the leader is outside its set.
\* Code: actors.replication.read_barriers.ReadBarriers._lease_holds
LeaseHolds(l) ==
    /\ lease[l] >= 0 /\ now < lease[l] + LeaseOf(l)
    /\ IsVoter(VotersIn(l), l)
    /\ \/ \A member \in VotersIn(l) : \E r \in promised[l] \cup {l} : Matches(member, r)
       \/ Broken("voters that promise nothing are not asked")
    /\ ~HasUncommittedVoters(l) /\ KnowsHighWatermark(l)

\* All other steps take no time.  A new leader commits nothing while it waits.
\* Code: actors.replication.leader_replication.LeaderReplication._wait_out_leases
StepInTime ==
    /\ Next
    /\ \A l \in Leaders : role'[l] = "Leader" /\ hw'[l] > hw[l] => now >= waits[l]
    /\ LET moved(r) == role'[r] # role[r] \/ epoch'[r] # epoch[r]
       IN  /\ began' = [r \in Replicas |-> IF moved(r) THEN 0 ELSE began[r]]
           /\ returned' = [r \in Replicas |-> IF moved(r) THEN {} ELSE returned[r]]
           /\ promised' = [r \in Replicas |-> IF moved(r) THEN {} ELSE promised[r]]
           /\ lease' = [r \in Replicas |-> IF moved(r) THEN -1 ELSE lease[r]]
           /\ waits' = [r \in Replicas |->
                IF ~moved(r) THEN waits[r] ELSE IF role'[r] = "Leader" THEN now + WaitOf(r) ELSE 0]
    /\ UNCHANGED <<now, rate>>

NextWithLeases ==
    \/ StepInTime
    \/ Tick
    \/ \E l \in Replicas : BeginRound(l)
    \/ \E f, l \in Replicas : ReturnRound(f, l)

\* What later steps depend on: how long ago a round and the lease began, and how long a
\* leader still waits.  No lease really lasts longer than 3.
Ages ==
    [l \in Leaders |-> <<Min(now - began[l], 3),
                         IF lease[l] < 0 THEN -1 ELSE Min(now - lease[l], 3),
                         Max({waits[l] - now, 0})>>]
LeaseView == <<rate, returned, promised, Ages>>

\* A leader whose lease holds has the highest high watermark of all.
\* Invariant LinearizableReads.
LeaseReadsAreLinearizable == \A l \in Leaders : LeaseHolds(l) => hw[l] >= Len(committed)

=============================================================================
