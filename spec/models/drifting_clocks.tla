------------------------------ MODULE drifting_clocks ------------------------------
(* Reads by lease while clocks drift as much as they may, and another leader   *)
(* is elected. It excludes crashes and voter changes.                          *)

EXTENDS Leases, TLC

CONSTANTS a, b, c

AllReplicas == {a, b, c}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

InitWithLeases == InitLed /\ InitLeases

=============================================================================
