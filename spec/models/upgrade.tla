------------------------------ MODULE upgrade ------------------------------
(* The upgrade from the static voters of kraft.version 0 to a set of disks,    *)
(* and a disk that is replaced after every voter has read it. Excluded are     *)
(* disks that are replaced before, from which nothing protects (static_disks,  *)
(* upgrade_committed).                                                         *)

EXTENDS KRaft, TLC

CONSTANTS a1, a2, b1, c1, A, B, C

AllReplicas == {a1, a2, b1, c1}
Voters == {A, B, C}
Ids == (a1 :> A) @@ (a2 :> A) @@ (b1 :> B) @@ (c1 :> C) @@ (A :> A) @@ (B :> B) @@ (C :> C)

IsUpgraded == \A r \in running : VotersRecords(r) # {}

SwapsFollowTheUpgrade == running' # running => IsUpgraded

\* Machine A begins with its first disk.
InitWithDisks == InitLed /\ running = {a1, b1, c1}

=============================================================================
