---------------------------- MODULE VoterChanges -----------------------------
(* AddVoter and RemoveVoter, one replica at a time (KIP-853).  A VotersRecord  *)
(* is in force as soon as it is in the log.                                    *)

EXTENDS HighWatermark

\* A change has its turn when no other one is uncommitted, the epoch has a commit,
\* and the leader is in its set.
\* Code: actors.membership.voter_change.VoterChangeSteps.in_turn
InTurn(l) ==
    /\ IsUp(l) /\ role[l] = "Leader" /\ spent.changes < MaxChanges
    /\ ~HasUncommittedVoters(l) \/ Broken("two changes are made at a time")
    /\ \/ KnowsHighWatermark(l)
       \/ Broken("a change does not wait for the first commit of the epoch")
       \/ Broken("the high watermark of an older epoch will do for a change") /\ hw[l] > 0
    /\ IsVoter(VotersIn(l), l)

\* Code: actors.membership.voter_change.VoterChangeSteps.append
AppendVoters(l, voters) ==
    /\ log' = [log EXCEPT ![l] = Append(@, Record(l, voters))]
    /\ made' = [made EXCEPT ![epoch[l]] = @ + 1]
    /\ Spend("changes")
    /\ UNCHANGED <<durable, synced, start, base, snap, volatile, running, committed, commitEnd, elected>>

\* From kraft.version 1 on, a set names replicas.  Before, it is the configuration's
\* and names ids.
\* Code: actors.membership.voter_change_coordinator.VoterChangeCoordinator._require_dynamic_voters
HasDynamicVoters(l) == VotersIn(l) \subseteq Replicas

\* The newcomer has caught up with the leader in this epoch.  Its id is free.
\* Code: actors.membership.voter_change_coordinator.VoterChangeCoordinator._add
AddVoter(l, r) ==
    /\ InTurn(l) /\ HasDynamicVoters(l)
    /\ \A member \in VotersIn(l) : IdOf[member] # IdOf[r]
    /\ known[l][r] > EpochStart(l)
    /\ IF Broken("a new voter takes the place of another so that their number stays odd")
       THEN \E other \in VotersIn(l) \ {l} : AppendVoters(l, (VotersIn(l) \ {other}) \cup {r})
       ELSE AppendVoters(l, VotersIn(l) \cup {r})

\* The upgrade to kraft.version 1 appends the static set, with the directory ids that
\* followers have told the leader of their epoch by UpdateVoter.
\* Code: protocol.voter_changes.upgrade_voters
UpgradeVersion(l) ==
    /\ InTurn(l) /\ ~HasDynamicVoters(l)
    /\ \E voters \in SUBSET (VotersIn(l) \cup {r \in Replicas : r = l \/ known[l][r] > EpochStart(l)}) :
        /\ \A member \in VotersIn(l) : Cardinality({r \in voters : IdOf[r] = IdOf[member]}) = 1
        /\ Cardinality(voters) = Cardinality(VotersIn(l))
        /\ voters \subseteq Replicas \/ Broken("the upgrade takes voters as they are known")
        /\ AppendVoters(l, voters)

\* The leader may remove itself.
\* Code: actors.membership.voter_change_coordinator.VoterChangeCoordinator._remove
RemoveVoter(l, r) ==
    /\ InTurn(l)
    /\ r \in VotersIn(l) /\ Cardinality(VotersIn(l)) > 1
    /\ AppendVoters(l, VotersIn(l) \ {r})

\* What the two steps of a replaced disk must not be: one.
ReplaceAtOnce(l, old, new) ==
    /\ Broken("a new disk takes the place of the old one at once")
    /\ InTurn(l)
    /\ old \in VotersIn(l) /\ new \notin VotersIn(l) /\ IdOf[old] = IdOf[new]
    /\ known[l][new] > EpochStart(l)
    /\ AppendVoters(l, (VotersIn(l) \ {old}) \cup {new})

\* A leader that has committed a set without itself resigns.
\* Code: actors.replication.leader_replication.LeaderReplication._leave_once_committed
LeaveOnceCommitted(l) ==
    /\ IsUp(l) /\ role[l] = "Leader"
    /\ ~IsVoter(VotersIn(l), l) /\ ~HasUncommittedVoters(l) /\ KnowsHighWatermark(l)
    /\ ~Broken("a removed leader leads on")
    /\ Become(l, "Resigned", epoch[l], l, l)
    /\ UNCHANGED <<grants, log, start, base, snap, hw, running, ghosts, spent>>

=============================================================================
