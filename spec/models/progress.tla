------------------------------- MODULE progress -------------------------------
(* Three voters that can go on do so: the leader has perhaps removed a         *)
(* voter, and then it, another one, or the link between two is gone for        *)
(* good. It excludes elections before, crashes, and clients.                   *)

EXTENDS Progress, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]

\* The first leader is one of them: they are alike.
InitInProgress == InitLed /\ role[a] = "Leader" /\ InitProgress

\* Of b and c, which are alike, only b is removed.
OnlyTheFirstTwo == \A r \in AllReplicas : log'[r] # log[r] => c \in VotersIn(r)'

Spec == InitInProgress /\ [][NextWithProgress]_progressVars /\ Fairness

=============================================================================
