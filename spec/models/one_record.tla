------------------------------ MODULE one_record ------------------------------
(* A record is replicated while leaders change twice and one process           *)
(* crashes. It excludes voter changes and more records.                        *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
