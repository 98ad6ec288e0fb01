-------------------------------- MODULE Disks --------------------------------
(* A machine that comes back with another disk: a blank one, which has a       *)
(* directory id of its own, or one that it ran on before.                      *)

EXTENDS VoterChanges

\* The new process begins from what its own directory has.  The directory of the
\* old one stays as it is, and may come back.
\* Code: storage.directory.meta_properties.MetaProperties
SwapDisk(old, new) ==
    /\ IsUp(old) /\ ~IsUp(new) /\ IdOf[old] = IdOf[new]
    /\ spent.swaps < MaxSwaps
    /\ running' = (running \ {old}) \cup {new}
    /\ log' = [log EXCEPT ![old] = SubSeq(@, 1, synced[old])]
    /\ LET newRole == InitialRole(new, VotersIn(new))
       IN  /\ role' = [role EXCEPT ![old] = "Unattached", ![new] = newRole]
           /\ grants' = [grants EXCEPT ![old] = {},
                                       ![new] = IF newRole = "Candidate" THEN OwnGrant(new) ELSE {}]
    /\ contact' = [contact EXCEPT ![old] = "none", ![new] = "none"]
    /\ hw' = [hw EXCEPT ![old] = snap[old].end, ![new] = snap[new].end]
    /\ known' = [known EXCEPT ![old] = NothingKnown, ![new] = NothingKnown]
    /\ Spend("swaps")
    /\ UNCHANGED <<durable, synced, start, base, snap, ghosts>>

=============================================================================
