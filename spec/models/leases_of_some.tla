------------------------------ MODULE leases_of_some ------------------------------
(* Leases where one voter does not have the key: there are none.               *)

EXTENDS Leases, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b})

Some == {a, b}
InitWithLeases == InitLed /\ InitLeases

=============================================================================
