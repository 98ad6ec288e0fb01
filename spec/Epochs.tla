-------------------------------- MODULE Epochs -------------------------------
(* How replicas hear of epochs and leaders, and how they come back from a      *)
(* restart.                                                                    *)

EXTENDS Votes

\* Any request for a vote, and any response, moves a replica to a higher epoch.
\* Code: protocol.quorum_epoch.learn_leader
HearOfEpoch(r, from) ==
    /\ IsUp(r) /\ IsUp(from) /\ epoch[from] > epoch[r]
    /\ Become(r, "Unattached", epoch[from], Nobody, Nobody)
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* BeginQuorumEpoch, or a response that names the leader.  A Prospective does not
\* return to a leader that others name.
\* Code: protocol.quorum_epoch.learn_leader
HearOfLeader(r, from) ==
    /\ IsUp(r) /\ IsUp(from) /\ leader[from] # Nobody
    \* A node with the leader's id that does not lead refuses the message.
    /\ IdOf[leader[from]] # IdOf[r]
    /\ \/ epoch[from] > epoch[r]
       \/ /\ epoch[from] = epoch[r]
          /\ role[r] \in {"Unattached", "Candidate", "Prospective"}
          /\ leader[r] = Nobody \/ (role[r] = "Unattached" /\ leader[r] = leader[from])
    /\ LET vote == IF epoch[from] = epoch[r] /\ ~Broken("the vote is dropped when the leader is known")
                   THEN voted[r] ELSE Nobody
       IN  Become(r, "Follower", epoch[from], leader[from], vote)
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* The leader itself brings a Prospective back that had lost it.
\* Code: protocol.quorum_epoch.begin_quorum_epoch
BeginQuorumEpoch(l, r) ==
    /\ IsUp(l) /\ IsUp(r) /\ role[l] = "Leader" /\ epoch[l] = epoch[r]
    /\ role[r] = "Prospective" /\ leader[r] = l /\ contact[r] # "resigned"
    /\ Become(r, "Follower", epoch[r], l, voted[r])
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* A resigned leader says so.  A follower then grants pre-votes again.
\* Code: protocol.quorum_epoch.end_quorum_epoch
EndQuorumEpoch(l, r) ==
    /\ PreVotes /\ IsUp(l) /\ IsUp(r)
    /\ role[l] = "Resigned" /\ role[r] = "Follower" /\ leader[r] = l /\ epoch[l] = epoch[r]
    /\ contact[r] # "resigned"
    /\ contact' = [contact EXCEPT ![r] = "resigned"]
    /\ UNCHANGED <<durable, directory, role, grants, hw, known, running, ghosts, spent>>

-----------------------------------------------------------------------------

\* The role in which a process begins.
\* Code: protocol.roles.initial_role
InitialRole(r, votersThen) ==
    IF leader[r] = r
    THEN IF Broken("a restarted leader asks for its epoch again") THEN "Candidate"
         ELSE IF Broken("a restarted leader leads on") THEN "Leader" ELSE "Resigned"
    ELSE IF leader[r] # Nobody
    THEN IF IsVoter(votersThen, leader[r]) THEN "Follower" ELSE "Unattached"
    ELSE IF voted[r] = r /\ IsVoter(votersThen, r) /\ ~Broken("the vote is forgotten at a restart")
    THEN "Candidate" ELSE "Unattached"

\* The process of r ends, or its machine loses power, and it starts again.  The
\* directory has everything that was synced, and perhaps more.
\* Code: actors.election.election.Election.__init__
Restart(r) ==
    /\ IsUp(r) /\ spent.crashes < MaxCrashes
    /\ \E end \in synced[r]..Len(log[r]) :
        LET lost == Broken("the epoch after a restart is that of the log")
            kept == {i \in VotersRecords(r) : i <= end}
            votersThen == IF kept = {} THEN base[r] ELSE log[r][Max(kept)].voters
            newRole == IF lost THEN "Unattached" ELSE InitialRole(r, votersThen)
            isVoteLost ==
                \/ lost \/ Broken("the vote is forgotten at a restart")
                \/ Broken("a vote is not stored") /\ voted[r] # r
            isEpochLost ==
                \/ lost
                \/ Broken("a higher epoch seen is not stored") /\ voted[r] = Nobody /\ leader[r] = Nobody
        IN  /\ log' = [log EXCEPT ![r] = SubSeq(@, 1, end)]
            /\ synced' = [synced EXCEPT ![r] = end]
            /\ role' = [role EXCEPT ![r] = newRole]
            /\ grants' = [grants EXCEPT ![r] =
                    IF newRole = "Candidate" /\ IsVoter(votersThen, r) THEN {r} ELSE {}]
            /\ epoch' = [epoch EXCEPT ![r] = IF isEpochLost THEN LastEpoch(SubSeq(log[r], 1, end)) ELSE @]
            /\ leader' = [leader EXCEPT ![r] =
                    IF lost \/ (newRole = "Candidate" /\ leader[r] = r) THEN Nobody ELSE @]
            /\ voted' = [voted EXCEPT ![r] = IF isVoteLost THEN Nobody ELSE @]
    /\ contact' = [contact EXCEPT ![r] = "none"]
    /\ hw' = [hw EXCEPT ![r] = snap[r].end]
    /\ known' = [known EXCEPT ![r] = NothingKnown]
    /\ Spend("crashes")
    /\ UNCHANGED <<start, base, snap, running, ghosts>>

=============================================================================
