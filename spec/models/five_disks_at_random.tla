------------------------- MODULE five_disks_at_random ------------------------
(* Everything at once, at random: three voters, a newcomer and a second disk,  *)
(* with five epochs, clients, crashes, changes, swaps and snapshots. It is far *)
(* too large to be searched.                                                   *)

EXTENDS KRaft, TLC

CONSTANTS a1, b, c, d, a2, A

AllReplicas == {a1, b, c, d, a2}
Voters == {a1, b, c}
Ids == (a1 :> A) @@ (b :> b) @@ (c :> c) @@ (d :> d) @@ (a2 :> A) @@ (A :> A)

=============================================================================
