------------------------------ MODULE three_epochs ------------------------------
(* Votes in three epochs without pre-votes: whoever may campaign does.         *)
(* Excluded are clients and voter changes.                                     *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
