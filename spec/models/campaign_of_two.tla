------------------------------ MODULE campaign_of_two ------------------------------
(* Who may campaign: a set of two, of which one is removed, and both may       *)
(* crash.                                                                      *)

EXTENDS KRaft, TLC

CONSTANTS a, b

AllReplicas == {a, b}
Voters == {a, b}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b})

=============================================================================
