---------------------------- MODULE progress_of_two ---------------------------
(* A quorum of two goes on after a removal and a crash.                        *)

EXTENDS Progress, TLC

CONSTANTS a, b

AllReplicas == {a, b}
Voters == {a, b}
Ids == [r \in AllReplicas |-> r]

\* The first leader is one of them: they are alike.
InitInProgress == InitLed /\ role[a] = "Leader" /\ InitProgress

Spec == InitInProgress /\ [][NextWithProgress]_progressVars /\ Fairness

=============================================================================
