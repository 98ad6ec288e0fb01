----------------------- MODULE progress_after_divergence ----------------------
(* Three voters go on after an election that has left a record of a client     *)
(* to one of them. It excludes voter changes and crashes.                      *)

EXTENDS Progress, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]

\* The first leader is one of them: they are alike.
InitInProgress == InitLed /\ role[a] = "Leader" /\ InitProgress

\* It becomes calm when the new leader has synced its record.  Before, it does so in the
\* model progress.
CalmWithAnElection == calm' = (elected[2] # {}) \/ (~calm /\ synced' # synced)

Spec == InitInProgress /\ [][NextWithProgress]_progressVars /\ Fairness

=============================================================================
