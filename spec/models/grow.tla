------------------------------ MODULE grow ------------------------------
(* A quorum of one grows to three by two changes, while leaders change. It     *)
(* excludes clients.                                                           *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({b, c})

=============================================================================
