------------------------------ MODULE campaign_of_four ------------------------------
(* Who may campaign: a set of four, of which one is removed, and any may be    *)
(* gone for good.                                                              *)

EXTENDS Cuts, TLC

CONSTANTS a, b, c, d

AllReplicas == {a, b, c, d}
Voters == {a, b, c, d}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c, d})

=============================================================================
