------------------------------ MODULE elections ------------------------------
(* Elections with pre-votes among three voters, from the first one on.         *)
(* Excluded are clients, voter changes, and a second crash.                    *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
