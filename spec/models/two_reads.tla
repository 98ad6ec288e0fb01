------------------------------ MODULE two_reads ------------------------------
(* Two reads behind barriers, of which the second must not share the round of  *)
(* the first. It is too large for an exhaustive search in minutes.             *)

EXTENDS Reads, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithReads == InitLed /\ InitReads

=============================================================================
