------------------------------- MODULE Quorum -------------------------------
(* The nouns of the protocol: replicas, their logs, the voter sets in these,   *)
(* and the variables that all other modules share.                             *)
(*                                                                             *)
(* A replica is one formatted directory, so a machine with a new disk runs     *)
(* another replica with the same id.  Offsets are exclusive ends, as in the    *)
(* code: a log of three records ends at 3, and record i ends at offset i.      *)
(*                                                                             *)
(* There are no messages.  A request and its response are one step, which      *)
(* reads the states of both sides.  That excludes few behaviours:              *)
(* - A lost message is a step that is not taken.                               *)
(* - A Fetch that the leader serves late, after its sender has moved on: the   *)
(*   leader notes positions at once, and may count them at any later time.     *)
(* - A Fetch response that arrives late has less of what the leader has now,   *)
(*   because a leader only appends.  Followers take one record a step.         *)
(* - A Vote response that arrives late is counted late: a candidate may take   *)
(*   its majority at any time while it is one.                                 *)
(* Excluded is a message that moves its receiver to an epoch which all others  *)
(* have left: the receiver can do nothing there but leave it.                  *)

EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Replicas,       \* all directories that exist at some time
    IdOf,           \* [Replicas -> the node id]; also maps each id to itself
    InitialVoters,  \* the set that formatting has written
    MaxEpoch,       \* no epoch is above
    MaxRecords,     \* how many records clients append
    MaxCrashes,     \* how often a process is restarted, perhaps after a power failure
    MaxChanges,     \* how many VotersRecords leaders append by themselves
    MaxSwaps,       \* how often a machine comes back with another disk
    MaxResignations,\* how often a leader resigns without being replaced
    MaxSnapshots,   \* how many snapshots are taken
    SyncsApart,     \* FALSE: a follower syncs, and learns of the high watermark, in the step
                    \* in which it appends.  One that crashes in between is like one that has
                    \* not appended.
    PreVotes,       \* FALSE: any replica that may campaign wins its pre-vote
    Mutation,       \* the rule that is switched off, or "none"
    Nobody

VARIABLES
    \* What quorum-state holds; durable before the replica acts on it.
    epoch,      \* the replica's epoch
    leader,     \* the leader of that epoch as far as known, or Nobody
    voted,      \* the replica that it voted for in that epoch, or Nobody
    \* The partition directory.
    log,        \* a sequence of records: epoch, number within the epoch, voters
    synced,     \* the end of what a power failure does not take
    start,      \* where the log starts; a snapshot has what is before
    base,       \* the voter set at the start of the log; {} if it is not known
    snap,       \* the newest snapshot: its end, and the voters there
    \* What a process forgets when it ends.
    role,
    grants,     \* the replicas that have granted their votes or pre-votes
    contact,    \* "fetched" from its leader, told that it has "resigned", or "none"
    hw,         \* the high watermark; 0 if it is not known
    known,      \* of a leader: the end that each replica has acknowledged
    \* The machines.
    running,    \* the replicas whose processes run
    \* What nobody knows, for the properties.
    committed,  \* the longest log that any leader has taken for committed
    commitEnd,  \* by epoch, up to where its leader has committed
    elected,    \* by epoch, the replicas that have been elected
    made,       \* by epoch, how many records its leader has made
    spent       \* how often what has happened that a model bounds

durable == <<epoch, leader, voted>>
directory == <<log, synced, start, base, snap>>
volatile == <<role, grants, contact, hw, known>>
ghosts == <<committed, commitEnd, elected, made>>
vars == <<durable, directory, volatile, running, ghosts, spent>>

Epochs == 0..MaxEpoch
Roles == {"Unattached", "Prospective", "Candidate", "Follower", "Leader", "Resigned"}

Broken(rule) == Mutation = rule

Max(S) == CHOOSE x \in S : \A y \in S : y <= x
Min(a, b) == IF a < b THEN a ELSE b

Spend(what) == spent' = [spent EXCEPT ![what] = @ + 1]

-----------------------------------------------------------------------------
(* Logs *)

LastEpoch(l) == IF l = <<>> THEN 0 ELSE l[Len(l)].epoch

\* Code: protocol.types.OffsetAndEpoch.is_at_least_as_up_to_date_as
AtLeastAsUpToDate(one, other) ==
    IF Broken("a stale log gets the vote") THEN TRUE
    ELSE IF Broken("logs are compared by length first")
    THEN \/ Len(one) > Len(other)
         \/ Len(one) = Len(other) /\ LastEpoch(one) >= LastEpoch(other)
    ELSE \/ LastEpoch(one) > LastEpoch(other)
         \/ LastEpoch(one) = LastEpoch(other) /\ Len(one) >= Len(other)

\* The largest epoch of a log that is not above e, and where it ends.  Along a log, epochs
\* never fall.
\* Code: protocol.reconciliation.end_of_epoch
EndOfEpoch(l, e) ==
    LET end == Cardinality({i \in 1..Len(l) : l[i].epoch <= e})
    IN  [epoch |-> IF end = 0 THEN e ELSE l[end].epoch, end |-> end]

\* Where the records of the leader's own epoch begin.
EpochStart(r) == Cardinality({i \in 1..Len(log[r]) : log[r][i].epoch < epoch[r]})

\* A leader's high watermark counts only above the start of its epoch.
\* Code: actors.replication.leader_replication.LeaderReplication.high_watermark
KnowsHighWatermark(l) == hw[l] > EpochStart(l)

\* A record that its leader makes now.  `voters` is {} if it is no VotersRecord.
Record(r, voters) == [epoch |-> epoch[r], number |-> made[epoch[r]] + 1, voters |-> voters]

-----------------------------------------------------------------------------
(* Voter sets.  A member is a replica or, at kraft.version 0, an id.           *)

\* Code: protocol.voter_set.VoterSet.is_voter
Matches(member, r) ==
    \/ member = r
    \/ member = IdOf[r]
    \/ Broken("voters are told by their ids alone") /\ IdOf[member] = IdOf[r]

IsVoter(voters, r) == \E member \in voters : Matches(member, r)

\* The members of a set that one of these replicas is.
MembersAmong(voters, replicas) == {member \in voters : \E r \in replicas : Matches(member, r)}

\* Code: protocol.voter_set.VoterSet.is_majority
IsMajority(voters, replicas) ==
    voters # {} /\ 2 * Cardinality(MembersAmong(voters, replicas)) > Cardinality(voters)

VotersRecords(r) == {i \in start[r] + 1..Len(log[r]) : log[r][i].voters # {}}

\* Where the set in force ends in the log; the start of the log if a snapshot has it.
\* Code: protocol.voter_history.VoterHistory.voters_offset
VotersEnd(r) == IF VotersRecords(r) = {} THEN start[r] ELSE Max(VotersRecords(r))

\* Code: protocol.voter_history.VoterHistory.voters_at
VotersAt(r, end) ==
    LET below == {i \in VotersRecords(r) : i <= end}
    IN  IF below = {} THEN base[r] ELSE log[r][Max(below)].voters

\* The set in force: the newest one, committed or not.
\* Code: protocol.voter_history.VoterHistory.voters
VotersIn(r) == VotersAt(r, Len(log[r]))

\* Whether the newest set may be uncommitted, as far as the replica knows.
\* Code: protocol.voter_history.VoterHistory.uncommitted
HasUncommittedVoters(r) == VotersRecords(r) # {} /\ VotersEnd(r) > hw[r]

\* The set before the newest one; {} if the newest is known to be committed.
\* Code: actors.election.election.Election._previous_voters
PreviousVoters(r) == IF HasUncommittedVoters(r) THEN VotersAt(r, VotersEnd(r) - 1) ELSE {}

-----------------------------------------------------------------------------
(* Roles *)

NothingKnown == [r \in Replicas |-> 0]

\* The replica enters a role.  All tasks of the last one have ended, so what they
\* wrote is synced before anything else happens (rule R1).
\* Code: actors.election.election.Election._become
Become(r, newRole, newEpoch, newLeader, newVote) ==
    /\ role' = [role EXCEPT ![r] = newRole]
    /\ epoch' = [epoch EXCEPT ![r] = newEpoch]
    /\ leader' = [leader EXCEPT ![r] = newLeader]
    /\ voted' = [voted EXCEPT ![r] = newVote]
    /\ known' = [known EXCEPT ![r] = NothingKnown]
    /\ contact' = [contact EXCEPT ![r] =
            IF @ = "resigned" /\ newEpoch = epoch[r] /\ newRole \in {"Follower", "Prospective"} THEN @ ELSE "none"]
    /\ synced' = [synced EXCEPT ![r] =
            IF Broken("the role changes before its tasks have ended") THEN @ ELSE Len(log[r])]

\* Its own vote counts only if the newest set names it.
\* Code: actors.election.vote_round.VoteRound.__init__
OwnGrant(r) == IF IsVoter(VotersIn(r), r) THEN {r} ELSE {}

=============================================================================
