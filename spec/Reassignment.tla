----------------------------- MODULE Reassignment ----------------------------
(* The way from a voter set to a target, one replica at a time (KIP-642).      *)
(* This module stands alone: each step is an AddVoter or a RemoveVoter of      *)
(* VoterChanges, which commits before the next one.  The planner chooses among *)
(* the steps that are harmless here by preference, which costs no tolerance.   *)

EXTENDS Integers, FiniteSets

CONSTANTS Replicas, IdOf, Mutation

VARIABLES
    voters,
    target,
    up,         \* the replicas that keep up with the leader, itself included
    leader

vars == <<voters, target, up, leader>>

Broken(rule) == Mutation = rule

MaxOf(a, b) == IF a > b THEN a ELSE b
MinOf(a, b) == IF a < b THEN a ELSE b

HasUniqueIds(set) == \A r, s \in set : IdOf[r] = IdOf[s] => r = s
VoterSets == {set \in SUBSET Replicas : set # {} /\ HasUniqueIds(set)}

Incoming == target \ voters
Outgoing == voters \ target

\* How many more failures a set survives, if these newcomers have arrived.
\* Code: protocol.reassignment._Planner._tolerance
Tolerance(set, arrived) == Cardinality(set \cap (up \cup arrived)) - (Cardinality(set) \div 2 + 1)

IsIdFree(r) == \A v \in voters : IdOf[v] # IdOf[r]

\* The newcomers that take the id of a voter.
\* Code: protocol.reassignment._Planner._successor
Successors(v) == {r \in Incoming : IdOf[r] = IdOf[v] /\ r # v}

\* A single voter is left whose id must move, and no other newcomer is up.
\* Code: protocol.reassignment._Planner._is_dead_end
IsDeadEnd(set) ==
    /\ Cardinality(set) <= 1
    /\ \A v \in set : Successors(v) # {}
    /\ ~\E r \in Incoming \cap up : \A v \in set : IdOf[v] # IdOf[r]

Sets(step) == IF step.adds THEN voters \cup {step.key} ELSE voters \ {step.key}

\* Code: protocol.reassignment._Planner._possible_steps
PossibleSteps ==
    LET adds == {[adds |-> TRUE, key |-> r] : r \in {s \in Incoming : s \in up /\ IsIdFree(s)}}
        mayLeave(v) ==
            \/ Successors(v) = {}
            \/ Successors(v) \cap up # {}
            \/ Tolerance(voters \ {v}, {}) > Tolerance(voters, {})
        removes == {[adds |-> FALSE, key |-> v] : v \in {s \in Outgoing : mayLeave(s)}}
    IN  {step \in adds \cup removes : ~IsDeadEnd(Sets(step))}

\* Each newcomer that is left has the id of a voter.
\* Code: protocol.reassignment._Planner._moves_ids_only
MovesIdsOnly == \A r \in Incoming : ~IsIdFree(r)

\* Code: protocol.reassignment._Planner.step
HarmlessSteps ==
    LET atLeast == MaxOf(0, MinOf(Tolerance(voters, {}), Tolerance(target, Incoming)))
        harmless == {step \in PossibleSteps : Tolerance(Sets(step), {}) >= atLeast}
        moves == {step \in PossibleSteps : Successors(step.key) # {} /\ Tolerance(Sets(step), {}) >= 0}
        impatient == {[adds |-> FALSE, key |-> v] : v \in Outgoing}
    IN  IF Broken("outgoing voters leave before newcomers come") /\ Cardinality(voters) > 1
        THEN impatient
        ELSE IF Broken("dead newcomers are not waited for") /\ Incoming \ up # {} /\ Cardinality(voters) > 1
        THEN harmless \cup impatient
        ELSE IF harmless = {} /\ MovesIdsOnly THEN moves ELSE harmless

-----------------------------------------------------------------------------

HasMajority(set) == Tolerance(set, {}) >= 0

Init ==
    /\ voters \in VoterSets
    /\ target \in VoterSets
    /\ up \in SUBSET Replicas
    /\ leader \in voters \cap up
    /\ HasMajority(voters)

\* Code: actors.membership.reassignment.Reassignment._take
TakeStep ==
    /\ leader \in voters /\ HasMajority(voters)
    /\ \E step \in HarmlessSteps :
        /\ step.key # leader
        /\ voters' = Sets(step)
    /\ UNCHANGED <<target, up, leader>>

\* The leader is to leave: it resigns, so that the next one can remove it.
\* Code: protocol.reassignment.HandOver
HandOverLeadership ==
    /\ leader \in voters /\ HasMajority(voters)
    /\ [adds |-> FALSE, key |-> leader] \in HarmlessSteps
    /\ leader' \in (voters \cap up) \ {leader}
    /\ UNCHANGED <<voters, target, up>>

\* Replicas fail and come back.
\* Code: protocol.replica_health.ReplicaHealth
ReplicaChanges ==
    /\ \E r \in Replicas \ {leader} : up' = IF r \in up THEN up \ {r} ELSE up \cup {r}
    /\ UNCHANGED <<voters, target, leader>>

NextStep == TakeStep \/ HandOverLeadership \/ ReplicaChanges

\* No step leaves less than the weaker of the set before and the target; the id of a
\* voter that is up may cost one when it moves to another disk.
\* Invariant ReassignmentKeepsTolerance.
ReassignmentKeepsTolerance ==
    [][voters' # voters =>
        LET moved == {IdOf[v] : v \in voters \ voters'} \cap {IdOf[r] : r \in Incoming}
            least == MinOf(Tolerance(voters, {}), Tolerance(target, Incoming))
        IN  Tolerance(voters', {}) >= MaxOf(0, least - Cardinality(moved))]_vars

\* Each step is on the way.
\* Invariant ReassignmentKeepsTolerance.
NoDetours ==
    [][voters' # voters =>
        Cardinality((voters' \ target) \cup (target \ voters')) < Cardinality(Outgoing \cup Incoming)]_vars

\* While all replicas are up, there is always a next step, except that a single voter
\* cannot move its id to another disk by itself.
\* Invariant ReassignmentKeepsTolerance.
ThereIsAWay ==
    up = Replicas /\ voters # target =>
        \/ HarmlessSteps # {}
        \/ Cardinality(voters) = 1 /\ Cardinality(target) = 1

=============================================================================
