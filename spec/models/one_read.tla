------------------------------ MODULE one_read ------------------------------
(* A read behind a barrier, while another leader is elected and commits. It    *)
(* excludes crashes, voter changes, and Kafka's voters, which return no round. *)

EXTENDS Reads, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithReads == InitLed /\ InitReads

=============================================================================
