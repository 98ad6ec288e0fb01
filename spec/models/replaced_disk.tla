----------------------------- MODULE replaced_disk ----------------------------
(* Machine A comes back with a blank disk, and later with the old one,         *)
(* which may have been removed from the voters and replaced by the other.      *)
(* It excludes power failures, and the removal of other voters.                *)

EXTENDS Cuts, TLC

CONSTANTS a1, b, c, a2, A

AllReplicas == {a1, b, c, a2}
Voters == {a1, b, c}
Ids == (a1 :> A) @@ (b :> b) @@ (c :> c) @@ (a2 :> A) @@ (A :> A)
Symmetry == Permutations({b, c})

OnlyAIsReplaced == \A r \in AllReplicas : log'[r] # log[r] => {b, c} \subseteq VotersIn(r)'

=============================================================================
