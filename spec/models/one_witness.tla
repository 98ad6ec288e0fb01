------------------------------ MODULE one_witness ------------------------------
(* A witness in a quorum of three. It excludes crashes and voter changes.      *)

EXTENDS Witness, Cuts, TLC

CONSTANTS a, b, w

AllReplicas == {a, b, w}
Voters == {a, b, w}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b})

OneWitness == {w}
InitWithWitness == InitLed /\ InitWitness

ModelView == <<View, witnessVars>>

=============================================================================
