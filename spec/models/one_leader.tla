------------------------------ MODULE one_leader ------------------------------
(* A record and a removal in one epoch. It excludes elections, but a process   *)
(* may crash.                                                                  *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
