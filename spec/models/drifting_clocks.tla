------------------------------ MODULE drifting_clocks ------------------------------
(* Reads by lease while clocks drift as much as they may, and another leader   *)
(* is elected. The first leader has the slowest clock, and the others have the *)
(* fastest; all other rates are less dangerous. It excludes crashes and voter  *)
(* changes.                                                                    *)

EXTENDS Leases, Cuts, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithLeases ==
    /\ InitLed /\ InitLeases
    /\ \A r \in Voters : (rate[r] = "slow") = (role[r] = "Leader")

\* All but those that wait for leases.
LeadersCountAfterLeases == CountAtOnce({l \in Able : now >= waits[l]})

ModelView == <<View, LeaseView>>

=============================================================================
