------------------------------ MODULE Properties -----------------------------
(* What must hold.  Each property is that of the simulator's invariant that is *)
(* named, as far as this specification has its subject.  Invariants are about  *)
(* one state; the others are about one step.                                   *)

EXTENDS Snapshots

SamePrefix(one, other, end) ==
    /\ end <= Len(one) /\ end <= Len(other)
    /\ \A i \in 1..end : one[i] = other[i]

\* A second copy of the rule, which no mutation changes.
IsMemberOf(voters, r) == \E member \in voters : member = r \/ member = IdOf[r]

IsMajorityOf(voters, replicas) ==
    voters # {} /\ 2 * Cardinality({m \in voters : \E r \in replicas : IsMemberOf({m}, r)}) > Cardinality(voters)

Leaders == {r \in running : role[r] = "Leader"}

-----------------------------------------------------------------------------
(* Elections *)

\* Invariant OneLeaderPerEpoch.
OneLeaderPerEpoch ==
    /\ \A e \in Epochs : Cardinality(elected[e]) <= 1
    /\ \A r \in Replicas : leader[r] # Nobody => leader[r] \in elected[epoch[r]]

\* Invariant EpochsNeverFall.
EpochsNeverFall == [][\A r \in Replicas : epoch'[r] >= epoch[r]]_vars

\* Invariant OneVotePerEpoch.
OneVotePerEpoch ==
    [][\A r \in Replicas : epoch'[r] = epoch[r] /\ voted[r] # Nobody => voted'[r] = voted[r]]_vars

\* A vote for another replica answers a request of that epoch: it is a candidate,
\* and no pre-vote is stored as a vote.
\* Invariant OneVotePerEpoch.
VotesAreAskedFor ==
    [][\A r, c \in Replicas :
        c # r /\ voted'[r] = c /\ voted[r] # c => role[c] = "Candidate" /\ epoch[c] = epoch'[r]]_vars

\* Invariant RestartedLeaderResigns.
RestartedLeaderResigns ==
    [][\A r \in Replicas :
        role'[r] = "Leader" /\ (role[r] # "Leader" \/ Len(log'[r]) < Len(log[r]))
            => elected[epoch'[r]] = {} /\ elected'[epoch'[r]] = {r}]_vars

\* Invariant MembersCampaign.
MembersCampaign ==
    [][\A r \in Replicas :
        role'[r] \in {"Prospective", "Candidate"} /\ role'[r] # role[r]
            => IsMemberOf(VotersIn(r), r) \/ IsMemberOf(PreviousVoters(r), r) \/ role[r] \in {"Prospective", "Candidate"}]_vars

\* A leader has the votes of a majority of its own set, all of members on the disks
\* that the set names, which have stored them.
\* Invariant DeadIncarnations.
DeadIncarnations ==
    [][\A r \in Replicas :
        elected' # elected /\ r \in elected'[epoch[r]] \ elected[epoch[r]] =>
            /\ IsMajorityOf(VotersIn(r), grants[r])
            /\ \A v \in grants[r] : IsMemberOf(VotersIn(r), v) /\ (epoch[v] > epoch[r] \/ voted[v] = r)]_vars

\* The roles that may follow a role in the same process and epoch.
FollowingRoles == [
    Unattached |-> {"Unattached", "Prospective", "Follower"},
    Prospective |-> {"Prospective", "Unattached", "Follower"},
    Candidate |-> {"Candidate", "Prospective", "Leader", "Follower"},
    Follower |-> {"Follower", "Prospective"},
    Leader |-> {"Leader", "Resigned"},
    Resigned |-> {"Resigned"}]

\* Invariant RoleTransitions.
RoleTransitions ==
    [][\A r \in running \cap running' :
        \/ spent'.crashes > spent.crashes
        \/ epoch'[r] = epoch[r] /\ role'[r] \in FollowingRoles[role[r]]
        \/ epoch'[r] > epoch[r] /\ role'[r] \in {"Unattached", "Follower"}
        \/ epoch'[r] = epoch[r] + 1 /\ role'[r] = "Candidate" /\ (role[r] = "Prospective" \/ ~PreVotes)]_vars

\* Invariant RoleTransitions.
NamedLeaderStays ==
    [][\A r \in Replicas : epoch'[r] = epoch[r] /\ leader[r] # Nobody => leader'[r] = leader[r]]_vars

-----------------------------------------------------------------------------
(* Logs *)

\* Invariant LogMatching.
LogMatching ==
    \A r, s \in Replicas : \A i \in 1..Min(Len(log[r]), Len(log[s])) :
        log[r][i].epoch = log[s][i].epoch => SamePrefix(log[r], log[s], i)

\* Invariant LogMatching.
EpochsRiseAlongLogs ==
    \A r \in Replicas : \A i \in 2..Len(log[r]) : log[r][i - 1].epoch <= log[r][i].epoch

\* Invariant LeaderAppendsInItsEpoch.
LeaderAppendsInItsEpoch ==
    [][\A r \in Leaders :
        role'[r] = "Leader" =>
            /\ SamePrefix(log[r], log'[r], Len(log[r]))
            /\ \A i \in Len(log[r]) + 1..Len(log'[r]) : log'[r][i].epoch = epoch[r]]_vars

\* Invariant LeaderAppendsInItsEpoch.
LogsEndInTheirEpochs == \A r \in Replicas : LastEpoch(log[r]) <= epoch[r]

\* Invariant ProgressIsDurable.
ProgressIsDurable ==
    \A l \in Leaders : \A f \in Replicas : epoch[f] = epoch[l] /\ f # l => known[l][f] <= synced[f]

-----------------------------------------------------------------------------
(* What is committed *)

\* Invariant StateMachineSafety.
StateMachineSafety ==
    \A r \in running : start[r] <= hw[r] /\ hw[r] <= Len(log[r]) /\ SamePrefix(log[r], committed, hw[r])

\* Invariant LeaderCompleteness.
LeaderCompleteness ==
    \A l \in Leaders : \A e \in Epochs : e < epoch[l] => SamePrefix(log[l], committed, commitEnd[e])

\* Invariant HighWatermarkNeverFalls.
HighWatermarkNeverFalls ==
    [][\A r \in running \cap running' : hw'[r] >= hw[r] \/ spent'.crashes > spent.crashes]_vars

\* Invariant HighWatermarkOfTheEpoch.
HighWatermarkOfTheEpoch ==
    [][\A r \in running \cap running' : hw'[r] > hw[r] =>
        IF role[r] = "Leader" THEN log[r][hw'[r]].epoch = epoch[r]
        ELSE commitEnd[epoch[r]] > 0 \/ start'[r] > start[r]]_vars

\* A disk that is gone counts for what it claimed.
\* Invariant CommitByMajority.
CommitByMajority ==
    [][\A l \in Leaders : hw'[l] > hw[l] =>
        LET end == hw'[l]
            holders == {r \in Replicas : synced[r] >= end /\ Len(log[r]) >= end /\ log[r][end] = log[l][end]}
        IN  IsMajorityOf(VotersIn(l), holders)]_vars

-----------------------------------------------------------------------------
(* Voter sets *)

\* Invariant OneUncommittedVoterChange.
OneUncommittedVoterChange ==
    \A r \in Replicas : Cardinality({i \in VotersRecords(r) : i > Len(committed)}) <= 1

\* Invariant OverlappingVoterSets.
OverlappingVoterSets ==
    \A r \in Replicas : \A i \in VotersRecords(r) :
        LET before == VotersAt(r, i - 1)
            after == log[r][i].voters
            kept == {m \in before : \E n \in after : n = m \/ m = IdOf[n]}
        IN  before # {} => Cardinality(before) + Cardinality(after) - 2 * Cardinality(kept) <= 1

\* A VotersRecord names disks, never ids alone.
\* Invariant DeadIncarnations.
RecordsNameDisks == \A r \in Replicas : \A i \in VotersRecords(r) : log[r][i].voters \subseteq Replicas

\* Invariant NoEarlyVoterChange.
NoEarlyVoterChange ==
    [][\A l \in Leaders :
        LET end == Len(log'[l])
        IN  end > Len(log[l]) =>
                log'[l][end].voters \in {{}, VotersIn(l)} \/ commitEnd[epoch[l]] > 0]_vars

\* The whole log, with what snapshots have replaced, says which set is in force.
\* Invariant VotersInForce.
VotersInForce ==
    \A r \in Replicas :
        LET records(end) == {i \in 1..end : log[r][i].voters # {}}
            upTo(end) == IF records(end) = {} THEN {} ELSE log[r][Max(records(end))].voters
        IN  /\ records(Len(log[r])) # {} => VotersIn(r) = upTo(Len(log[r]))
            /\ snap[r].end > 0 => snap[r].voters = upTo(snap[r].end)

-----------------------------------------------------------------------------
(* Snapshots *)

\* Invariant SnapshotsCoverTheLog.
SnapshotsCoverTheLog ==
    \A r \in Replicas : snap[r].end >= start[r] /\ SamePrefix(log[r], committed, snap[r].end)

-----------------------------------------------------------------------------
(* That the quorum can go on.  A replica is electable among those that are up  *)
(* if it may campaign and a majority of its set, among those, has no better    *)
(* log.  Epochs and votes do not matter, because there is always a next epoch. *)

Electable(r, up) ==
    /\ MayCampaign(r)
    /\ IsMajority(CountedVoters(r),
            OwnGrant(r) \cup {v \in up : Asks(r, v) /\ WouldAnswer(v, r) /\ AtLeastAsUpToDate(log[r], log[v])})

\* The last committed set, and those that may still be committed.
SetsThatCount ==
    LET records == {i \in 1..Len(committed) : committed[i].voters # {}}
    IN  {IF records = {} THEN InitialVoters ELSE committed[Max(records)].voters}
        \cup UNION {{log[r][i].voters : i \in {j \in VotersRecords(r) : j > Len(committed)}} : r \in Replicas}

\* As long as each set that may count has a majority of its members up, one of them
\* can be elected.  The simulator demands of every run that the quorum goes on.
SomebodyCanBeElected ==
    LET sets == SetsThatCount
    IN  \A up \in SUBSET running :
            (\A voters \in sets : IsMajorityOf(voters, up)) => \E r \in up : Electable(r, up)

\* The same, unless a newcomer that may not campaign has a better log than all that may.
\* It may have that, if it has fetched from a later leader than the one that has added
\* it, and the later leader is gone.
OnlyNewcomersHinderElections ==
    LET sets == SetsThatCount
        mayNot == {r \in running : ~IsMemberOf(InitialVoters, r) /\ ~MayCampaign(r)}
    IN  \A up \in SUBSET running :
            (\A voters \in sets : IsMajorityOf(voters, up)) =>
                \/ \E r \in up : Electable(r, up)
                \/ \E r \in up \cap mayNot : \A s \in up :
                        MayCampaign(s) => ~AtLeastAsUpToDate(log[s], log[r])

=============================================================================
