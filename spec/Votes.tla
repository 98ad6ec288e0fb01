-------------------------------- MODULE Votes --------------------------------
(* Elections: pre-votes, votes, winning, resigning (KIP-595, KIP-996).         *)

EXTENDS Campaign

IsUp(r) == r \in running

\* A replica that has heard of no leader for too long asks for pre-votes in its
\* present epoch.
\* Code: actors.election.role_changes._on_timeout
BecomeProspective(r) ==
    /\ PreVotes /\ IsUp(r)
    /\ role[r] \in {"Unattached", "Follower", "Candidate"}
    /\ role[r] = "Candidate" \/ MayCampaign(r)
    /\ epoch[r] < MaxEpoch
    /\ LET next == IF Broken("asking for pre votes raises the epoch") THEN epoch[r] + 1 ELSE epoch[r]
           vote == IF Broken("a lost candidate forgets its own vote") THEN Nobody ELSE voted[r]
           lead == IF Broken("a lost leader is forgotten in its epoch") THEN Nobody ELSE leader[r]
       IN  Become(r, "Prospective", next, lead, vote)
    /\ grants' = [grants EXCEPT ![r] = OwnGrant(r)]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* Code: protocol.roles.after_lost_pre_vote
LosePreVote(r) ==
    /\ IsUp(r) /\ role[r] = "Prospective"
    /\ Become(r, IF leader[r] = Nobody THEN "Unattached" ELSE "Follower", epoch[r], leader[r], voted[r])
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* Granting changes nothing at the voter, unless it was in a lower epoch.
\* Code: protocol.votes._decide_pre_vote
GrantPreVote(v, c) ==
    /\ role[c] = "Prospective" /\ IsUp(c)
    /\ Asks(c, v) /\ WouldAnswer(v, c)
    /\ epoch[v] = epoch[c]
    /\ role[v] # "Leader"
    /\ ~(role[v] = "Follower" /\ contact[v] = "fetched")
    /\ AtLeastAsUpToDate(log[c], log[v])
    /\ v \notin grants[c]
    /\ grants' = [grants EXCEPT ![c] = @ \cup {v}]
    /\ IF Broken("a pre vote granted is stored as a vote") /\ role[v] \in {"Unattached", "Prospective", "Follower"}
       THEN voted' = [voted EXCEPT ![v] = c]
       ELSE UNCHANGED voted
    /\ UNCHANGED <<epoch, leader, directory, role, contact, hw, known, running, ghosts, spent>>

\* A majority would vote for it: the next epoch begins with its vote for itself.
\* Code: actors.election.role_changes._on_vote_round_ended
BecomeCandidate(r) ==
    /\ IsUp(r) /\ epoch[r] < MaxEpoch
    /\ IF PreVotes THEN role[r] = "Prospective" /\ HasWon(r)
       ELSE role[r] \in {"Unattached", "Follower", "Candidate"} /\ MayCampaign(r)
    /\ IF Broken("a majority of pre votes makes a leader")
       THEN Become(r, "Candidate", epoch[r] + 1, Nobody, r) /\ UNCHANGED grants
       ELSE /\ Become(r, "Candidate", epoch[r] + 1, Nobody, r)
            /\ grants' = [grants EXCEPT ![r] = OwnGrant(r)]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* A vote is durable before it is answered, and never changes within an epoch.  A
\* request of a higher epoch first moves the voter there.
\* Code: protocol.votes.decide_vote
GrantVote(v, c) ==
    LET isNew == epoch[v] < epoch[c]
        vote == IF isNew THEN Nobody ELSE voted[v]
        newRole == IF isNew THEN "Unattached" ELSE role[v]
        lead == IF isNew THEN Nobody ELSE leader[v]
    IN  /\ role[c] = "Candidate" /\ IsUp(c)
        /\ Asks(c, v) /\ WouldAnswer(v, c)
        /\ epoch[v] <= epoch[c]
        /\ \/ newRole \in {"Unattached", "Prospective"}
           \/ Broken("a refusal counts as a vote")
        /\ \/ vote = c
           \/ vote = Nobody /\ lead = Nobody /\ AtLeastAsUpToDate(log[c], log[v])
           \/ Broken("a refusal counts as a vote")
           \/ Broken("the vote given is ignored") /\ AtLeastAsUpToDate(log[c], log[v])
        /\ v \notin grants[c]
        /\ IF Broken("a refusal counts as a vote") /\ ~isNew
           THEN UNCHANGED <<role, epoch, leader, voted, known, contact, synced>>
           ELSE Become(v, newRole, epoch[c], lead, c)
        /\ grants' = [grants EXCEPT ![c] = @ \cup {v}, ![v] = IF isNew THEN {} ELSE @]
        /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* A leader appends a record of its epoch first.  The first one of all has the
\* voters of the bootstrap checkpoint.
\* Code: actors.replication.first_batch.first_records
BecomeLeader(r) ==
    /\ IsUp(r) /\ role[r] = "Candidate" /\ HasWon(r)
    /\ role' = [role EXCEPT ![r] = "Leader"]
    /\ leader' = [leader EXCEPT ![r] = r]
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ log' = [log EXCEPT ![r] = Append(@, Record(r, IF VotersEnd(r) = 0 /\ base[r] \subseteq Replicas THEN base[r] ELSE {}))]
    /\ synced' = [synced EXCEPT ![r] =
            IF Broken("the role changes before its tasks have ended") THEN @ ELSE Len(log[r])]
    /\ known' = IF Broken("a leader goes on with the progress of an older epoch")
                THEN [known EXCEPT ![r] = [s \in Replicas |-> IF s = r THEN 0 ELSE commitEnd[epoch[r] - 1]]]
                ELSE known
    /\ elected' = [elected EXCEPT ![epoch[r]] = @ \cup {r}]
    /\ made' = [made EXCEPT ![epoch[r]] = @ + 1]
    /\ UNCHANGED <<epoch, voted, start, base, snap, contact, hw, running, committed, commitEnd, spent>>

\* A leader that is shutting down, or that no majority reaches.
\* Code: actors.election.role_changes.judge
Resign(r) ==
    /\ IsUp(r) /\ role[r] = "Leader"
    /\ spent.resignations < MaxResignations
    /\ Become(r, "Resigned", epoch[r], r, r)
    /\ Spend("resignations")
    /\ UNCHANGED <<grants, log, start, base, snap, hw, running, ghosts>>

\* A resigned leader leaves its epoch for the next one, in which it has not voted.
\* Code: actors.election.role_changes._on_timeout
LeaveResigned(r) ==
    /\ IsUp(r) /\ role[r] = "Resigned" /\ epoch[r] < MaxEpoch
    /\ Become(r, "Unattached", epoch[r] + 1, Nobody, Nobody)
    /\ UNCHANGED <<grants, log, start, base, snap, hw, running, ghosts, spent>>

=============================================================================
