------------------------------ MODULE leases_of_some ------------------------------
(* Leases where one voter does not have the key: there are none.               *)

EXTENDS Leases, Cuts, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b})

Some == {a, b}
InitWithLeases == InitLed /\ InitLeases

\* All but those that wait for leases.
LeadersCountAfterLeases == CountAtOnce({l \in Able : now >= waits[l]})

ModelView == <<View, LeaseView>>

=============================================================================
