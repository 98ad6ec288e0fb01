------------------------------ MODULE upgrade_committed ------------------------------
(* A hazard: the upgrade to kraft.version 1 is committed, and a disk is        *)
(* replaced before every voter has read it. A voter that still counts by the   *)
(* static set takes the vote of the blank disk.                                *)

EXTENDS KRaft, TLC

CONSTANTS a1, a2, b1, c1, A, B, C

AllReplicas == {a1, a2, b1, c1}
Voters == {A, B, C}
Ids == (a1 :> A) @@ (a2 :> A) @@ (b1 :> B) @@ (c1 :> C) @@ (A :> A) @@ (B :> B) @@ (C :> C)

IsUpgraded == \E i \in 1..Len(committed) : committed[i].voters # {}

SwapsFollowTheUpgrade == running' # running => IsUpgraded

\* Machine A begins with its first disk.
InitWithDisks == InitLed /\ running = {a1, b1, c1}

=============================================================================
