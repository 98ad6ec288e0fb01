-------------------------------- MODULE Traces -------------------------------
(* Whether a trace of nodes is a behaviour of the specification.               *)
(* scripts/trace-check writes a module that extends this one and defines the   *)
(* trace.  Each event is one step, after which everything that the trace shows *)
(* of its node must be what the specification has.                             *)
(*                                                                             *)
(* Most steps are actions of the specification.  Where these are coarser than  *)
(* the code, this module has finer ones:                                       *)
(* - A response may come after its sender has moved on.  It has what the       *)
(*   leader of that epoch had, and a request what its sender had when it asked.*)
(* - A Fetch response has several records, and an fsync covers what was there  *)
(*   when it began.                                                            *)
(* - A leader counts a Fetch after its sender has appended more.               *)

EXTENDS KRaft, TLC

CONSTANTS
    FirstRunning,\* the first disk of each machine
    AllTraces,  \* traces of quorums with the same replicas, each with its events in order
    IsLoose     \* TRUE: what the last event of a trace shows is not compared

VARIABLES
    which,      \* the trace that is followed
    at,         \* how many events have happened
    isNoted,    \* whether the leader has noted positions for the next event
    led,        \* by epoch, the newest log that its leader has had
    marks,      \* by epoch, the high watermarks that its leader has had
    reached,    \* by epoch, the end that each follower has synced of its leader's log
    seen,       \* the epochs in which a replica has been
    asked       \* what replicas have asked votes and pre-votes with

messages == <<led, marks, reached, seen, asked>>
traceVars == <<vars, which, at, isNoted, messages>>

\* TLC evaluates what it keeps here once, and AllTraces at each use.
Kept == 1
FollowedTo(number) == number + 1
Trace == TLCGet(Kept)[which]
Event == Trace[at + 1]

\* An event of the generated module.
E(kind, node, epochOf, roleOf, leaderOf, end, syncedEnd, highWatermark, voters, value) == [
    kind |-> kind, node |-> node, value |-> value,
    shown |-> [epoch |-> epochOf, role |-> roleOf, leader |-> leaderOf, end |-> end,
               synced |-> syncedEnd, hw |-> highWatermark, voters |-> voters]]

\* What a trace shows of a node.  It names the leader that the node follows or is.
ShownLeader(r) == IF role[r] \in {"Leader", "Follower"} THEN IdOf[leader[r]] ELSE Nobody

KnownLeader(r) == IF leader[r] = Nobody THEN Nobody ELSE IdOf[leader[r]]

\* A candidate's vote for itself goes without saying, and a leader's.
ShownVote(r) ==
    IF role[r] \in {"Candidate", "Leader", "Resigned"} \/ voted[r] = Nobody THEN Nobody ELSE IdOf[voted[r]]

Shown(r) == [
    epoch |-> epoch[r], role |-> role[r], leader |-> ShownLeader(r), end |-> Len(log[r]),
    synced |-> synced[r], hw |-> hw[r], voters |-> {IdOf[member] : member \in VotersIn(r)}]

\* With a static set, observers know it too.
TraceBase(r) == IF InitialVoters \subseteq Replicas /\ ~IsVoter(InitialVoters, r) THEN {} ELSE InitialVoters

TraceInit ==
    /\ TLCSet(Kept, AllTraces)
    /\ Init
    /\ running = FirstRunning
    /\ which \in 1..Len(TLCGet(Kept))
    /\ at = 0 /\ isNoted = FALSE
    /\ led = [e \in Epochs |-> <<>>]
    /\ marks = [e \in Epochs |-> {}]
    /\ reached = [e \in Epochs |-> NothingKnown]
    /\ seen = {0}
    /\ asked = {}
    /\ TLCSet(FollowedTo(which), -1)

\* What messages have of a step of r, whenever they arrive.
Remember(r) ==
    LET e == epoch'[r]
        isFollower == role'[r] = "Follower" /\ synced'[r] > reached[e][r]
    IN  /\ led' = IF role'[r] = "Leader" THEN [led EXCEPT ![e] = log'[r]] ELSE led
        /\ marks' = IF role'[r] = "Leader" /\ hw'[r] # hw[r] THEN [marks EXCEPT ![e] = @ \cup {hw'[r]}] ELSE marks
        /\ reached' = IF isFollower /\ synced'[r] <= Len(led[e]) /\ log'[r][synced'[r]] = led[e][synced'[r]]
                      THEN [reached EXCEPT ![e][r] = synced'[r]] ELSE reached
        /\ seen' = seen \cup {e}
        /\ asked' = IF role'[r] \in {"Prospective", "Candidate"}
                    THEN asked \cup {[from |-> r, epoch |-> e, isPreVote |-> role'[r] = "Prospective",
                                      last |-> LastEpoch(log'[r]), end |-> Len(log'[r])]}
                    ELSE asked

-----------------------------------------------------------------------------
(* Elections *)

\* Like HearOfEpoch: the sender may have left that epoch.  The message may name a leader
\* that has resigned, or that cannot be reached.
HearOfEpochLate(r, e, l) ==
    /\ IsUp(r) /\ e > epoch[r] /\ e \in seen /\ l \in elected[e] \cup {Nobody}
    /\ Become(r, "Unattached", e, l, Nobody)
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* Like HearOfLeader and BeginQuorumEpoch: the leader has been elected, and may be gone.
HearOfLeaderLate(r, e, l) ==
    /\ IsUp(r) /\ l \in elected[e] /\ IdOf[l] # IdOf[r]
    /\ \/ e > epoch[r]
       \/ /\ e = epoch[r] /\ role[r] \in {"Unattached", "Candidate", "Prospective"}
          /\ leader[r] \in {Nobody, l}
    /\ Become(r, "Follower", e, l, IF e = epoch[r] THEN voted[r] ELSE Nobody)
    /\ grants' = [grants EXCEPT ![r] = {}]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* Like BecomeCandidate: a peer that does not know pre-votes makes them superfluous.
SkipPreVote(r) ==
    /\ IsUp(r) /\ role[r] = "Prospective" /\ MayCampaign(r)
    /\ Become(r, "Candidate", epoch[r] + 1, Nobody, r)
    /\ grants' = [grants EXCEPT ![r] = OwnGrant(r)]
    /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

\* The leader is at another address, from which the follower has not fetched yet.
FollowElsewhere(r) ==
    /\ IsUp(r) /\ role[r] = "Follower"
    /\ contact' = [contact EXCEPT ![r] = "none"]
    /\ UNCHANGED <<durable, directory, role, grants, hw, known, running, ghosts, spent>>

\* A role is published.  It may be the same one, with a vote or another address.
ChangeRole(r, e) ==
    \/ BecomeProspective(r)
    \/ LosePreVote(r)
    \/ BecomeCandidate(r)
    \/ Resign(r)
    \/ LeaveOnceCommitted(r)
    \/ LeaveResigned(r)
    \/ \E l \in elected[e] \cup {Nobody} : HearOfEpochLate(r, e, l)
    \/ \E l \in elected[e] : HearOfLeaderLate(r, e, l)
    \/ UNCHANGED vars

IsUpToDate(request, l) ==
    \/ request.last > LastEpoch(l)
    \/ request.last = LastEpoch(l) /\ request.end >= Len(l)

\* Like GrantVote: the candidate may have moved on, or count this vote already.
GrantVoteLate(v, c, e) ==
    /\ IsUp(v)
    /\ \E request \in asked :
        /\ request.from = c /\ request.epoch = e /\ ~request.isPreVote
        /\ \/ epoch[v] = e /\ voted[v] = c /\ UNCHANGED vars
           \/ /\ epoch[v] = e /\ role[v] \in {"Unattached", "Prospective"}
              /\ voted[v] = Nobody /\ leader[v] = Nobody /\ IsUpToDate(request, log[v])
              /\ voted' = [voted EXCEPT ![v] = c]
              /\ UNCHANGED <<epoch, leader, directory, volatile, running, ghosts, spent>>
           \/ /\ epoch[v] < e /\ IsUpToDate(request, log[v])
              /\ Become(v, "Unattached", e, Nobody, c)
              /\ grants' = [grants EXCEPT ![v] = {}]
              /\ UNCHANGED <<log, start, base, snap, hw, running, ghosts, spent>>

CanGrantVote(v, c, e) == role[c] = "Candidate" /\ epoch[c] = e /\ v \notin grants[c]

\* Like GrantPreVote, which changes nothing at the voter.
GrantPreVoteLate(v, c, e) ==
    /\ epoch[v] = e /\ role[v] # "Leader" /\ ~(role[v] = "Follower" /\ contact[v] = "fetched")
    /\ \E request \in asked :
        request.from = c /\ request.epoch = e /\ request.isPreVote /\ IsUpToDate(request, log[v])
    /\ UNCHANGED vars

CanGrantPreVote(v, c, e) == role[c] = "Prospective" /\ epoch[c] = e /\ v \notin grants[c]

\* Before that, a follower may have been told by its leader that it has resigned.
IsToldOfResignation(v) ==
    /\ role[v] = "Follower" /\ contact[v] = "fetched"
    /\ \E l \in elected[epoch[v]] : role[l] # "Leader" \/ epoch[l] > epoch[v]
    /\ contact' = [contact EXCEPT ![v] = "resigned"]
    /\ UNCHANGED <<durable, directory, role, grants, hw, known, running, ghosts, spent>>

\* What a process has made durable, and has not published when it ended.
ChangesUnpublished(r, event) ==
    /\ \/ event.shown.epoch # epoch[r]
       \/ event.value.known # KnownLeader(r)
       \/ event.value.voted # Nobody /\ voted[r] = Nobody
    /\ \/ ChangeRole(r, event.shown.epoch)
       \/ \E c \in Replicas : GrantVoteLate(r, c, event.shown.epoch)

Unpublished == {"unpublished"}

Begins(event) == event.kind \in {"begin", "restart", "swap"}

\* Before a process starts, its configuration may be given the static voters, or lose them.
ChangeStaticVoters(r, voters) ==
    /\ ~(InitialVoters \subseteq Replicas) /\ voters \in {{}, InitialVoters} /\ VotersRecords(r) = {}
    /\ base[r] # voters
    /\ base' = [base EXCEPT ![r] = voters]
    /\ UNCHANGED <<durable, log, synced, start, snap, volatile, running, ghosts, spent>>

-----------------------------------------------------------------------------
(* Replication *)

\* The log that the follower fetches from.
Fetched(f) == led[epoch[f]]

AgreesWith(f, leaders) ==
    LET end == EndOfEpoch(leaders, LastEpoch(log[f]))
    IN  log[f] = <<>> \/ (end.epoch = LastEpoch(log[f]) /\ end.end >= Len(log[f]))

\* Like Fetch: the response has the records up to that end.
FetchUpTo(f, end) ==
    /\ IsUp(f) /\ role[f] = "Follower" /\ synced[f] = Len(log[f])
    /\ AgreesWith(f, Fetched(f))
    /\ Len(log[f]) < end /\ end <= Len(Fetched(f))
    /\ log' = [log EXCEPT ![f] = @ \o SubSeq(Fetched(f), Len(@) + 1, end)]
    /\ contact' = [contact EXCEPT ![f] = IF @ = "none" THEN "fetched" ELSE @]
    /\ UNCHANGED <<durable, synced, start, base, snap, role, grants, hw, known, running, ghosts, spent>>

\* Like Truncate.
TruncateLate(f) ==
    /\ IsUp(f) /\ role[f] = "Follower" /\ ~AgreesWith(f, Fetched(f))
    /\ LET told == EndOfEpoch(Fetched(f), LastEpoch(log[f]))
           own == EndOfEpoch(log[f], told.epoch)
           end == IF own.epoch = told.epoch THEN Min(own.end, told.end) ELSE own.end
       IN  /\ log' = [log EXCEPT ![f] = SubSeq(@, 1, end)]
           /\ synced' = [synced EXCEPT ![f] = end]
           /\ hw' = [hw EXCEPT ![f] = Min(@, end)]
    /\ UNCHANGED <<durable, start, base, snap, role, grants, contact, known, running, ghosts, spent>>

\* Like Sync: the fsync began before the last records came.
SyncUpTo(r, end) ==
    /\ IsUp(r) /\ synced[r] < end /\ end <= Len(log[r])
    /\ synced' = [synced EXCEPT ![r] = end]
    /\ UNCHANGED <<durable, log, start, base, snap, volatile, running, ghosts, spent>>

\* Like LearnHighWatermark: the leader has had that high watermark in this epoch, or a
\* higher one when the follower had synced less.
LearnHighWatermarkLate(f, end) ==
    /\ IsUp(f) /\ role[f] = "Follower" /\ AgreesWith(f, Fetched(f))
    /\ hw[f] < end /\ end <= synced[f]
    /\ \E mark \in marks[epoch[f]] : mark = end \/ (mark > end /\ end = synced[f])
    /\ hw' = [hw EXCEPT ![f] = end]
    /\ UNCHANGED <<durable, directory, role, grants, contact, known, running, ghosts, spent>>

\* The leader counts how far followers have come, up to that end.
Counted(l, end) == [r \in Replicas |->
    IF r = l THEN known[l][r] ELSE Max({known[l][r], Min(end, reached[epoch[l]][r])})]

CountsMore(l, end) == role[l] = "Leader" /\ Counted(l, end) # known[l]

NotePositions(l, end) ==
    /\ CountsMore(l, end)
    /\ known' = [known EXCEPT ![l] = Counted(l, end)]
    /\ UNCHANGED <<durable, directory, role, grants, contact, hw, running, ghosts, spent>>

-----------------------------------------------------------------------------
(* Voter sets and snapshots *)

\* A VotersRecord with the same set has another endpoint or target.
RepeatVoters(l) == InTurn(l) /\ AppendVoters(l, VotersIn(l))

\* What a leader appends.
AppendAsLeader(l, voters) ==
    IF voters = {} THEN AppendRecord(l)
    ELSE /\ \/ voters = VotersIn(l) /\ RepeatVoters(l)
            \/ UpgradeVersion(l)
            \/ \E r \in voters \ VotersIn(l) : AddVoter(l, r)
            \/ \E r \in VotersIn(l) \ voters : RemoveVoter(l, r)
         /\ VotersIn(l)' = voters

TakeSnapshotUpTo(r, end) == TakeSnapshot(r) /\ snap'[r].end = end

\* Like Trim: an older snapshot may be kept, with the records after it.
TrimTo(r, end) ==
    /\ IsUp(r) /\ start[r] < end /\ end <= snap[r].end
    /\ start' = [start EXCEPT ![r] = end]
    /\ base' = [base EXCEPT ![r] = VotersAt(r, end)]
    /\ UNCHANGED <<durable, log, synced, snap, volatile, running, ghosts, spent>>

\* A snapshot is damaged and ignored; there is an older one, or the log from its start.
LoseSnapshot(r, end) ==
    /\ start[r] <= end /\ end < snap[r].end
    /\ snap' = [snap EXCEPT ![r] = [end |-> end, voters |-> VotersAt(r, end)]]
    /\ UNCHANGED <<durable, log, synced, start, base, volatile, running, ghosts, spent>>

\* Like InstallSnapshot: of a leader that has committed all that it has.
InstallUpTo(f, end) ==
    LET brought == {i \in 1..end : Fetched(f)[i].voters # {}}
        voters == IF brought = {} THEN TraceBase(f) ELSE Fetched(f)[Max(brought)].voters
    IN  /\ IsUp(f) /\ role[f] = "Follower"
        /\ end > hw[f] /\ end <= Len(committed) /\ end <= Len(Fetched(f))
        /\ log' = [log EXCEPT ![f] = SubSeq(Fetched(f), 1, end)]
        /\ synced' = [synced EXCEPT ![f] = end]
        /\ start' = [start EXCEPT ![f] = end]
        /\ base' = [base EXCEPT ![f] = voters]
        /\ snap' = [snap EXCEPT ![f] = [end |-> end, voters |-> voters]]
        /\ hw' = [hw EXCEPT ![f] = end]
        /\ contact' = [contact EXCEPT ![f] = IF @ = "none" THEN "fetched" ELSE @]
        /\ UNCHANGED <<durable, role, grants, known, running, ghosts, spent>>

-----------------------------------------------------------------------------
(* The trace *)

\* What is shown need not have the voters: a node publishes a new set later.
IsAsShown(r, event) ==
    /\ Shown(r)' = [event.shown EXCEPT !.voters = IF @ = Unpublished THEN Shown(r)'.voters ELSE @]
    /\ event.value.voters # {} => VotersIn(r)' = event.value.voters
    /\ "lastEpoch" \in DOMAIN event.value => LastEpoch(log'[r]) = event.value.lastEpoch
    /\ "voted" \in DOMAIN event.value => ShownVote(r)' = event.value.voted
    /\ "known" \in DOMAIN event.value => KnownLeader(r)' = event.value.known

\* Bound by a quantifier, the event stays the same in the next state.
Happens(r, event) ==
    CASE event.kind = "begin" -> UNCHANGED vars
      [] event.kind = "same" -> UNCHANGED vars
      [] event.kind = "restart" -> Restart(r)
      [] event.kind = "swap" -> SwapDisk(event.value.old, r)
      [] event.kind = "role" -> ChangeRole(r, event.shown.epoch)
      [] event.kind = "skip" -> SkipPreVote(r)
      [] event.kind = "elsewhere" -> FollowElsewhere(r)
      [] event.kind = "leads" -> BecomeLeader(r)
      [] event.kind = "vote" ->
            IF CanGrantVote(r, event.value.candidate, event.value.epoch) THEN GrantVote(r, event.value.candidate)
            ELSE GrantVoteLate(r, event.value.candidate, event.value.epoch)
      [] event.kind = "prevote" ->
            IF CanGrantPreVote(r, event.value.candidate, event.value.epoch) THEN GrantPreVote(r, event.value.candidate)
            ELSE GrantPreVoteLate(r, event.value.candidate, event.value.epoch)
      [] event.kind = "append" /\ role[r] = "Leader" -> AppendAsLeader(r, event.value.voters)
      [] event.kind = "append" /\ role[r] # "Leader" -> FetchUpTo(r, event.shown.end)
      [] event.kind = "snapshot" -> TakeSnapshotUpTo(r, event.value.to)
      [] event.kind = "trim" -> TrimTo(r, event.value.to)
      [] event.kind = "install" -> InstallUpTo(r, event.shown.end)
      [] event.kind = "truncate" -> TruncateLate(r)
      [] event.kind = "sync" -> SyncUpTo(r, event.shown.synced)
      [] event.kind = "hw" /\ role[r] = "Leader" -> AdvanceHighWatermark(r)
      [] event.kind = "hw" /\ role[r] # "Leader" -> LearnHighWatermarkLate(r, event.shown.hw)
      [] OTHER -> FALSE

\* How far the leader must have counted for the event; 0 if it is no matter.
CountedFor(r, event) ==
    CASE event.kind = "hw" -> event.shown.hw
      [] event.kind = "append" /\ event.value.voters # {} -> hw[r]
      [] OTHER -> 0

\* What leaves no event.
PrecedesSilently(r, event) ==
    \/ NotePositions(r, CountedFor(r, event))
    \/ event.kind = "prevote" /\ IsToldOfResignation(r)
    \/ event.kind = "restart" /\ ChangesUnpublished(r, event)
    \/ Begins(event) /\ ChangeStaticVoters(r, event.shown.voters)
    \/ Begins(event) /\ "damaged" \in DOMAIN event.value /\ LoseSnapshot(r, event.shown.hw)
    \/ event.kind = "trim" /\ snap[r].end < event.value.to /\ TakeSnapshotUpTo(r, event.value.to)

TraceNext ==
    /\ at < Len(Trace)
    /\ \E event \in {Event} :
        /\ \/ /\ ~CountsMore(event.node, CountedFor(event.node, event))
              /\ Happens(event.node, event)
              /\ (IsLoose /\ at + 1 = Len(Trace)) \/ IsAsShown(event.node, event)
              /\ at' = at + 1 /\ isNoted' = FALSE
           \/ /\ ~isNoted /\ PrecedesSilently(event.node, event)
              /\ isNoted' = TRUE /\ UNCHANGED at
        /\ Remember(event.node)
    /\ UNCHANGED which

\* The properties that also need what no single node shows.
BrokenProperty ==
    CASE ~OneLeaderPerEpoch -> "OneLeaderPerEpoch"
      [] ~StateMachineSafety -> "StateMachineSafety"
      [] OTHER -> "none"

\* Tells how far each trace has been followed, and what the specification has of the
\* node of the next event; of the last event's, in all outcomes, if these are not compared.
Progress ==
    LET isOutcome == IsLoose /\ at = Len(Trace)
        next == IF isOutcome THEN Trace[at].node ELSE IF at < Len(Trace) THEN Event.node ELSE Nobody
    IN  /\ at > TLCGet(FollowedTo(which)) \/ isOutcome =>
            /\ TLCSet(FollowedTo(which), at)
            /\ PrintT(<<"followed", which, at, BrokenProperty, IF next = Nobody THEN <<>> ELSE Shown(next)>>)
        /\ BrokenProperty = "none"

=============================================================================
