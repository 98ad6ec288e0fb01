------------------------------ MODULE tiny ------------------------------
(* Two voters elect a leader, and it commits. This is what the tests check     *)
(* at each commit. It excludes all that takes three: a majority without one    *)
(* of the voters.                                                              *)

EXTENDS KRaft, TLC

CONSTANTS a, b

AllReplicas == {a, b}
Voters == {a, b}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b})

=============================================================================
