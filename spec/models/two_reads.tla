------------------------------- MODULE two_reads ------------------------------
(* Two reads behind barriers, of which the second must not share the round     *)
(* of the first. It excludes clients, crashes and voter changes.               *)

EXTENDS Reads, Cuts, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithReads == InitLed /\ InitReads

ModelView == <<View, readVars>>

=============================================================================
