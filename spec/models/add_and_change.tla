---------------------------- MODULE add_and_change ----------------------------
(* Two changes: a fourth replica becomes a voter first, and then any voter is  *)
(* removed, while leaders change. It excludes crashes and clients.             *)

EXTENDS Cuts, TLC

CONSTANTS a, b, c, d

AllReplicas == {a, b, c, d}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

DIsAddedFirst ==
    \A r \in AllReplicas : log'[r] # log[r] =>
        VotersIn(r)' = Voters \/ d \in VotersIn(r)' \/ Cardinality(VotersRecords(r)') = 3

=============================================================================
