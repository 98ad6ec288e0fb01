------------------------------ MODULE two_reads ------------------------------
(* Two reads behind barriers, while another leader is elected and commits.     *)
(* It excludes crashes and voter changes.                                      *)

EXTENDS Reads, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithReads == InitLed /\ InitReads

=============================================================================
