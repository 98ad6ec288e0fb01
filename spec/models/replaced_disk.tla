------------------------------ MODULE replaced_disk ------------------------------
(* Machine A comes back with a blank disk, and later with the old one. The     *)
(* set changes in two steps. It excludes power failures.                       *)

EXTENDS KRaft, TLC

CONSTANTS a1, b, c, a2, A

AllReplicas == {a1, b, c, a2}
Voters == {a1, b, c}
Ids == (a1 :> A) @@ (b :> b) @@ (c :> c) @@ (a2 :> A) @@ (A :> A)
Symmetry == Permutations({b, c})

=============================================================================
