------------------------------ MODULE one_record ------------------------------
(* A record is replicated while leaders change twice. It excludes crashes,     *)
(* voter changes, and more records.                                            *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
