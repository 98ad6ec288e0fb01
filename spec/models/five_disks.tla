----------------------------- MODULE five_disks ----------------------------
(* All ways from any set to any target among five disks of four machines,      *)
(* while replicas fail and come back. It excludes a change of the target on    *)
(* the way, which is another beginning.                                        *)

EXTENDS Reassignment, TLC

CONSTANTS a1, a2, b, c, d

AllReplicas == {a1, a2, b, c, d}
Ids == (a1 :> a1) @@ (a2 :> a1) @@ (b :> b) @@ (c :> c) @@ (d :> d)
Symmetry == Permutations({b, c, d})

=============================================================================
