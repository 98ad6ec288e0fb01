-------------------------------- MODULE Cuts ---------------------------------
(* What larger models leave out, so that TLC can see all of the rest: action   *)
(* constraints, of which each says what it excludes, and a view.               *)

EXTENDS KRaft

\* A leader syncs before anything else happens.  Excluded is one that commits a record
\* that it has not synced itself.
LeadersSyncAtOnce ==
    LET behind == {l \in Leaders : synced[l] < Len(log[l])}
    IN  behind # {} => \E l \in behind : synced'[l] > synced[l]

\* Leaders that could commit more, of which one does so before anything else happens.
\* Excluded are Fetches that arrive after their senders have moved on.
Able == {l \in Leaders : OnMajority(l) > Max({EpochStart(l), hw[l]})}
CountAtOnce(able) == able # {} => \E l \in able : hw'[l] > hw[l] \/ synced'[l] > synced[l]
LeadersCountAtOnce == CountAtOnce(Able)

\* While there is a candidate, it gets votes, and it leads as soon as they are a
\* majority.  Excluded are elections that nobody wins, votes for the winner that come
\* late, and what others do meanwhile.
ElectionsAreShort ==
    LET candidates == {c \in running : role[c] = "Candidate"}
        winners == {c \in candidates : HasWon(c)}
    IN  /\ winners # {} => \E c \in winners : role'[c] = "Leader"
        /\ candidates # {} => \E c \in candidates : role'[c] = "Leader" \/ grants'[c] \ grants[c] # {}

\* A replica comes to a higher epoch by voting, by resigning, or to a leader.  Excluded
\* are those that do nothing there.
NobodyIsIdle ==
    \A r \in Replicas :
        epoch'[r] > epoch[r] => role'[r] # "Unattached" \/ voted'[r] # Nobody \/ role[r] = "Resigned"

\* What the next steps depend on, if no process crashes: not a vote in an epoch whose
\* leader is known.  How many records an epoch's leader has made is in its log.
View ==
    <<epoch, leader, [r \in Replicas |-> IF leader[r] = Nobody THEN voted[r] ELSE Nobody],
      directory, volatile, running, committed, commitEnd, elected, spent>>

=============================================================================
