------------------------------ MODULE Snapshots ------------------------------
(* Snapshots with their voters (KIP-630, KIP-853).  The variable log keeps the *)
(* records that a trim has removed, so that properties can compare; nothing    *)
(* but properties looks at what is below the start.                            *)

EXTENDS Disks

\* A snapshot ends at or below the high watermark, at any record.
\* Code: protocol.snapshot_ids.next_snapshot_id
TakeSnapshot(r) ==
    /\ IsUp(r) /\ spent.snapshots < MaxSnapshots
    /\ \E end \in snap[r].end + 1..Len(log[r]) :
        /\ end <= hw[r] \/ Broken("a snapshot goes up to the end of the log")
        /\ snap' = [snap EXCEPT ![r] = [
                end |-> end,
                voters |-> IF Broken("a snapshot has the newest voters") THEN VotersIn(r) ELSE VotersAt(r, end)]]
    /\ Spend("snapshots")
    /\ UNCHANGED <<durable, log, synced, start, base, volatile, running, ghosts>>

\* Records that a snapshot covers are removed.
\* Code: storage.log.log.Log.trim
Trim(r) ==
    LET end == IF Broken("the log is trimmed past the snapshot") /\ snap[r].end > 0
               THEN synced[r] ELSE snap[r].end
    IN  /\ IsUp(r) /\ start[r] < end /\ end <= Len(log[r])
        /\ start' = [start EXCEPT ![r] = end]
        /\ base' = [base EXCEPT ![r] = snap[r].voters]
        /\ UNCHANGED <<durable, log, synced, snap, volatile, running, ghosts, spent>>

\* The snapshot replaces the log, with voters and high watermark.
\* Code: storage.log.log.Log.truncate_fully_to
InstallSnapshot(f, l) ==
    /\ MayFetch(f, l) /\ NeedsSnapshot(f, l)
    /\ snap[l].end > hw[f]
    /\ log' = [log EXCEPT ![f] = SubSeq(log[l], 1, snap[l].end)]
    /\ synced' = [synced EXCEPT ![f] = snap[l].end]
    /\ start' = [start EXCEPT ![f] = snap[l].end]
    /\ base' = [base EXCEPT ![f] = IF Broken("the voters of before the snapshot stay") THEN VotersIn(f) ELSE snap[l].voters]
    /\ snap' = [snap EXCEPT ![f] = snap[l]]
    /\ hw' = [hw EXCEPT ![f] = IF Broken("the high watermark is not that of the snapshot") THEN @ ELSE snap[l].end]
    /\ contact' = [contact EXCEPT ![f] = IF PreVotes /\ @ = "none" THEN "fetched" ELSE @]
    /\ UNCHANGED <<durable, role, grants, known, running, ghosts, spent>>

=============================================================================
