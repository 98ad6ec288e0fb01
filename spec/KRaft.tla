-------------------------------- MODULE KRaft --------------------------------
(* The whole protocol: how it begins, and which steps there are.  The models   *)
(* in models/ bound it.                                                        *)

EXTENDS Properties

Spent == [records |-> 0, crashes |-> 0, changes |-> 0, swaps |-> 0,
          resignations |-> 0, snapshots |-> 0]

Base(r) == IF IsVoter(InitialVoters, r) THEN InitialVoters ELSE {}

\* One disk of each machine is in use: those that the initial set names, if it names
\* disks.
FirstDisks ==
    {up \in SUBSET Replicas :
        /\ \A r, s \in up : IdOf[r] = IdOf[s] => r = s
        /\ \A r \in Replicas : \E s \in up : IdOf[r] = IdOf[s]
        /\ InitialVoters \cap Replicas \subseteq up}

\* The voters that are up have these values, all others those.
Initially(up, ofVoters, ofOthers) ==
    [r \in Replicas |-> IF r \in up /\ IsVoter(InitialVoters, r) THEN ofVoters ELSE ofOthers]

\* What both beginnings share.
InitVolatile ==
    /\ start = [r \in Replicas |-> 0]
    /\ base = [r \in Replicas |-> Base(r)]
    /\ snap = [r \in Replicas |-> [end |-> 0, voters |-> Base(r)]]
    /\ grants = [r \in Replicas |-> {}]
    /\ contact = [r \in Replicas |-> "none"]
    /\ spent = Spent

\* Nobody knows anything but the initial voters.
Init ==
    /\ running \in FirstDisks
    /\ InitVolatile
    /\ epoch = [r \in Replicas |-> 0]
    /\ leader = [r \in Replicas |-> Nobody]
    /\ voted = [r \in Replicas |-> Nobody]
    /\ log = [r \in Replicas |-> <<>>]
    /\ synced = [r \in Replicas |-> 0]
    /\ role = [r \in Replicas |-> "Unattached"]
    /\ hw = [r \in Replicas |-> 0]
    /\ known = [r \in Replicas |-> NothingKnown]
    /\ committed = <<>>
    /\ commitEnd = [e \in Epochs |-> 0]
    /\ elected = [e \in Epochs |-> {}]
    /\ made = [e \in Epochs |-> 0]

\* One of the voters has been elected in epoch 1, and all have its first record, which
\* it has committed.  It saves a model the first election.
InitLed ==
    LET voters == IF InitialVoters \subseteq Replicas THEN InitialVoters ELSE {}
        first == [epoch |-> 1, number |-> 1, voters |-> voters]
    IN  /\ running \in FirstDisks
        /\ InitVolatile
        /\ \E l \in running :
            /\ IsVoter(InitialVoters, l)
            /\ epoch = Initially(running, 1, 0)
            /\ leader = Initially(running, l, Nobody)
            /\ voted = [r \in Replicas |-> IF r = l THEN l ELSE Nobody]
            /\ log = Initially(running, <<first>>, <<>>)
            /\ synced = Initially(running, 1, 0)
            /\ role = [Initially(running, "Follower", "Unattached") EXCEPT ![l] = "Leader"]
            /\ hw = [r \in Replicas |-> IF r = l THEN 1 ELSE 0]
            /\ known = [r \in Replicas |-> IF r = l THEN [Initially(running, 1, 0) EXCEPT ![l] = 0] ELSE NothingKnown]
            /\ committed = <<first>>
            /\ commitEnd = [e \in Epochs |-> IF e = 1 THEN 1 ELSE 0]
            /\ elected = [e \in Epochs |-> IF e = 1 THEN {l} ELSE {}]
            /\ made = [e \in Epochs |-> IF e = 1 THEN 1 ELSE 0]

Next ==
    \/ \E r \in Replicas :
        \/ BecomeProspective(r)
        \/ LosePreVote(r)
        \/ BecomeCandidate(r)
        \/ BecomeLeader(r)
        \/ Resign(r)
        \/ LeaveResigned(r)
        \/ Restart(r)
        \/ AppendRecord(r)
        \/ Sync(r)
        \/ AdvanceHighWatermark(r)
        \/ LeaveOnceCommitted(r)
        \/ UpgradeVersion(r)
        \/ TakeSnapshot(r)
        \/ Trim(r)
    \/ \E r, s \in Replicas :
        \/ GrantPreVote(r, s)
        \/ GrantVote(r, s)
        \/ HearOfEpoch(r, s)
        \/ HearOfLeader(r, s)
        \/ BeginQuorumEpoch(r, s)
        \/ EndQuorumEpoch(r, s)
        \/ Fetch(r, s)
        \/ Truncate(r, s)
        \/ LearnHighWatermark(r, s)
        \/ AddVoter(r, s)
        \/ RemoveVoter(r, s)
        \/ SwapDisk(r, s)
        \/ InstallSnapshot(r, s)
    \/ \E l, old, new \in Replicas : ReplaceAtOnce(l, old, new)

=============================================================================
