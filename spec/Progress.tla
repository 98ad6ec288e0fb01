------------------------------- MODULE Progress ------------------------------
(* That the quorum goes on.  At some time it becomes calm: from then on there  *)
(* are no more faults and no more changes, and messages arrive.  Who runs and  *)
(* who reaches whom then stays; a majority of each voter set that counts can   *)
(* reach each other.  Steps that are possible are then taken in the end (weak  *)
(* fairness), and each replica has its turn to time out (strong fairness).     *)
(*                                                                             *)
(* In the calm, a replica times out only if no leader reaches it, and when     *)
(* there is no message left to arrive.  Otherwise two voters that do not reach *)
(* each other can depose each other for ever: each asks for votes before the   *)
(* other's followers have fetched.                                             *)

EXTENDS Cuts

CONSTANT
    MaxFaultyEpoch  \* no epoch is above before the calm

VARIABLES
    calm,
    apart           \* two replicas that do not reach each other in the calm, or {}

progressVars == <<vars, calm, apart>>

Reaches(r, s) == r \in running /\ s \in running /\ {r, s} # apart

\* A set whose members all reach each other, and which has a majority of each set that
\* counts.
CanGoOn(up, cut) ==
    \E members \in SUBSET up :
        /\ ~(cut # {} /\ cut \subseteq members)
        /\ \A voters \in SetsThatCount : IsMajorityOf(voters, members)

InitProgress == calm = FALSE /\ apart = {}

\* Some are gone for good, or two do not reach each other.
BecomeCalm ==
    /\ ~calm
    /\ calm' = TRUE
    /\ \/ apart' = {} /\ running' \in SUBSET running
       \/ running' = running /\ apart' \in {{r, s} : r, s \in running} /\ Cardinality(apart') = 2
    /\ CanGoOn(running', apart')
    /\ UNCHANGED <<durable, directory, volatile, ghosts, spent>>

-----------------------------------------------------------------------------
(* What happens in the calm *)

\* A leader in contact with a majority of its set, in which it counts itself only as
\* a member.
\* Code: protocol.check_quorum.has_majority_contact
HasMajorityContact(l) ==
    \/ IsMajority(VotersIn(l), {r \in Replicas : r = l \/ Reaches(l, r)})
    \/ Broken("a leader cut off leads on")
    \/ /\ Broken("a leader outside its set is in contact with itself") /\ ~IsVoter(VotersIn(l), l)
       /\ \E r \in Replicas : ~Reaches(l, r) /\ IsMajority(VotersIn(l), {s \in Replicas : s = r \/ Reaches(l, s)})

\* Code: actors.election.role_changes.judge
ResignWithoutContact(l) ==
    /\ IsUp(l) /\ role[l] = "Leader" /\ ~HasMajorityContact(l)
    /\ Become(l, "Resigned", epoch[l], l, l)
    /\ UNCHANGED <<grants, log, start, base, snap, hw, running, ghosts, spent>>

HasLeader(r) ==
    \E l \in running :
        /\ Reaches(l, r) /\ role[l] = "Leader" /\ epoch[l] >= epoch[r]
        /\ epoch[l] = epoch[r] => leader[r] \in {l, Nobody}

\* A round of votes that has an answer to come, or a majority.
CanSucceed(c) ==
    \/ role[c] \in {"Prospective", "Candidate"} /\ HasWon(c)
    \/ \E v \in running : Reaches(v, c) /\ (ENABLED GrantPreVote(v, c) \/ ENABLED GrantVote(v, c))

Vote(c) == \E v \in running : Reaches(v, c) /\ (GrantPreVote(v, c) \/ GrantVote(v, c))
Hear(r) == \E s \in running :
    Reaches(s, r) /\ (HearOfEpoch(r, s) \/ HearOfLeader(r, s) \/ BeginQuorumEpoch(s, r) \/ EndQuorumEpoch(s, r))
Replicate(f) == \E l \in running : Reaches(l, f) /\ (Fetch(f, l) \/ Truncate(f, l) \/ LearnHighWatermark(f, l))
Win(r) == BecomeCandidate(r) \/ BecomeLeader(r)
Commit(l) == Sync(l) \/ AdvanceHighWatermark(l)
Leave(l) == LeaveOnceCommitted(l) \/ LeaveResigned(l) \/ ResignWithoutContact(l)
Lose(r) == ~CanSucceed(r) /\ LosePreVote(r)

\* What happens sooner than any time-out.
Soon(r) == Vote(r) \/ Hear(r) \/ Replicate(r) \/ Win(r) \/ Commit(r) \/ Leave(r)

\* Code: actors.election.role_changes._on_timeout
TimeOut(r) ==
    /\ ~HasLeader(r) /\ IsUp(r) /\ role[r] \in {"Unattached", "Follower", "Candidate"}
    /\ \A s \in running : ~ENABLED Soon(s)
    /\ BecomeProspective(r)

TakeTurn(r) == Soon(r) \/ Lose(r) \/ TimeOut(r)

InCalm(step) == calm /\ step /\ UNCHANGED <<calm, apart>>

NextWithProgress ==
    \/ ~calm /\ Next /\ UNCHANGED <<calm, apart>> /\ \A r \in Replicas : epoch'[r] <= MaxFaultyEpoch
    \/ BecomeCalm
    \/ \E r \in Replicas : InCalm(TakeTurn(r))

Fairness ==
    /\ WF_progressVars(BecomeCalm)
    /\ \A r \in Replicas :
        /\ WF_progressVars(InCalm(Vote(r)))
        /\ WF_progressVars(InCalm(Hear(r)))
        /\ WF_progressVars(InCalm(Replicate(r)))
        /\ WF_progressVars(InCalm(Win(r)))
        /\ WF_progressVars(InCalm(Commit(r)))
        /\ WF_progressVars(InCalm(Leave(r)))
        /\ WF_progressVars(InCalm(Lose(r)))
        /\ SF_progressVars(InCalm(TimeOut(r)))

-----------------------------------------------------------------------------
(* Cuts.  Each only puts off what is possible then, and remains so. *)

AtOnce == LeadersSyncAtOnce /\ LeadersCountAtOnce

\* Elections before the calm are short, with their pre-votes.
ShortBefore ==
    LET asking == {r \in running : role[r] = "Prospective"}
    IN  \/ calm'
        \/ /\ ElectionsAreShort
           /\ asking # {} => \E r \in asking : role'[r] = "Candidate" \/ grants'[r] \ grants[r] # {}

\* Nobody asks for votes before the calm.  Excluded are rounds that are under way then.
NoRoundsBefore == calm' \/ \A r \in Replicas : role'[r] \notin {"Prospective", "Candidate"}

-----------------------------------------------------------------------------
(* What must come about *)

\* An election ends, and the leader that it elects stays.  The simulator demands of
\* every run that the quorum goes on.
ElectionsEnd ==
    <>[](\E l \in Leaders : HasMajorityContact(l) /\ IsVoter(VotersIn(l), l) /\ \A r \in Leaders : epoch[r] <= epoch[l])

\* In the end, all of the leader's log is committed, with a record of its epoch.
AMajorityMakesProgress ==
    <>[](\E l \in Leaders : KnowsHighWatermark(l) /\ hw[l] = Len(log[l]) /\ \A r \in Leaders : epoch[r] <= epoch[l])

\* A voter set is committed in the end, or in no log of those that have a leader.
VoterChangesEnd ==
    <>[](\E l \in Leaders : \A r \in Replicas :
            r = l \/ (role[r] = "Follower" /\ leader[r] = l /\ Reaches(r, l)) => ~(\E i \in VotersRecords(r) : i > Len(committed)))

=============================================================================
