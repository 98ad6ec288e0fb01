------------------------------ MODULE static_disks ------------------------------

(* A hazard: at kraft.version 0, a voter with a blank disk votes again in an  *)
(* epoch in which it has voted.                                               *)

EXTENDS KRaft, TLC

CONSTANTS a1, a2, b1, c1, A, B, C

AllReplicas == {a1, a2, b1, c1}
Voters == {A, B, C}
Ids == (a1 :> A) @@ (a2 :> A) @@ (b1 :> B) @@ (c1 :> C) @@ (A :> A) @@ (B :> B) @@ (C :> C)


\* Machine A begins with its first disk.
InitWithDisks == InitLed /\ running = {a1, b1, c1}

=============================================================================
