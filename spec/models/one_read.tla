------------------------------ MODULE one_read ------------------------------
(* A read behind a barrier, while a record is committed and another leader is  *)
(* elected, which commits. It excludes crashes, voter changes, and Kafka's     *)
(* voters, which return no round.                                              *)

EXTENDS Reads, Cuts, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithReads == InitLed /\ InitReads

ModelView == <<View, readVars>>

=============================================================================
