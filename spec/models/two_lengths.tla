------------------------------ MODULE two_lengths ------------------------------
(* Two logs of which the shorter one has the later epoch. It excludes          *)
(* crashes and voter changes.                                                  *)

EXTENDS Cuts, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
