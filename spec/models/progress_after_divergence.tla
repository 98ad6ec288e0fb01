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

Spec == InitInProgress /\ [][NextWithProgress]_progressVars /\ Fairness

=============================================================================
