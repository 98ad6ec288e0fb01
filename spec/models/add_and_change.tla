---------------------------- MODULE add_and_change ----------------------------
(* Two changes: a fourth replica becomes a voter, and voters are removed,      *)
(* while leaders change. It excludes crashes and clients.                      *)

EXTENDS Cuts, TLC

CONSTANTS a, b, c, d

AllReplicas == {a, b, c, d}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
