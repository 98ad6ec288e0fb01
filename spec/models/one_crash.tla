------------------------------ MODULE one_crash ------------------------------
(* A record is replicated while the leader changes once, and one process       *)
(* crashes or its machine loses power. It excludes voter changes and more      *)
(* records.                                                                    *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
