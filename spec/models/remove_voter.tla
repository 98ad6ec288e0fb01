------------------------------ MODULE remove_voter ------------------------------
(* Voters are removed from a set of three, also the leader, while leaders      *)
(* change and a process crashes.                                               *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
