------------------------------ MODULE one_snapshot ------------------------------
(* A snapshot replaces the log of a replica that is behind, while leaders      *)
(* and voters change. It excludes crashes.                                     *)

EXTENDS Cuts, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
