------------------------------ MODULE Campaign ------------------------------
(* Who may campaign, and whom a candidate asks                                 *)
(* (docs/explanation/protocol.md#who-may-campaign).                            *)

EXTENDS Quorum

EverVoters(r) == UNION ({base[r]} \cup {log[r][i].voters : i \in VotersRecords(r)})

\* A member of the newest set, or of the one before until the newest is known to
\* be committed.
\* Code: actors.election.role_changes.Situation.is_needed
MayCampaign(r) ==
    \/ IsVoter(VotersIn(r), r)
    \/ IsVoter(PreviousVoters(r), r) /\ ~Broken("only members of the newest set campaign")
    \/ IsVoter(EverVoters(r), r) /\ Broken("a removed voter campaigns")
    \/ Broken("an observer campaigns")

\* The set by which a candidate counts.
\* Code: protocol.votes.VoteTally
CountedVoters(r) ==
    IF Broken("votes are counted by the set from before") /\ PreviousVoters(r) # {}
    THEN PreviousVoters(r) ELSE VotersIn(r)

\* A rule with two sides: candidates name the disk, and other disks do not answer.
\* Code: protocol.votes.voter_key_error
AnyDiskVotes ==
    Broken("votes ask any voter with the id") \/ Broken("a vote meant for another disk is answered")

\* A candidate asks the members of its newest set by id and directory id, except
\* those with its own id.
\* Code: actors.election.vote_round.VoteRound.run
Asks(candidate, r) ==
    /\ r \in running
    /\ IdOf[r] # IdOf[candidate]
    /\ \E member \in CountedVoters(candidate) :
        \/ Matches(member, r)
        \/ AnyDiskVotes /\ IdOf[member] = IdOf[r]

\* The voter need not know the candidate, whose set may be newer.
\* Code: protocol.votes.decide_vote
WouldAnswer(voter, candidate) ==
    Broken("a candidate that is not known gets no vote") => IsVoter(VotersIn(voter), candidate)

\* Code: protocol.votes.VoteTally.is_won
HasWon(candidate) ==
    LET voters == CountedVoters(candidate)
        counted == IF AnyDiskVotes
                   THEN {m \in voters : \E r \in grants[candidate] : IdOf[m] = IdOf[r]}
                   ELSE MembersAmong(voters, grants[candidate])
    IN  IF Broken("a minority of votes elects")
        THEN Cardinality(counted) >= 1
        ELSE voters # {} /\ 2 * Cardinality(counted) > Cardinality(voters)

=============================================================================
