------------------------------- MODULE Witness -------------------------------
(* A voter with kraft.witness=true: it takes part in commits and votes like    *)
(* any voter, appends nothing of clients, and leads only if nobody else can    *)
(* (docs/explanation/protocol.md#a-witness).                                   *)
(*                                                                             *)
(* Its restraint takes steps away from those of a voter, and adds none.  So    *)
(* what holds in every state of the other models holds with a witness, too.    *)

EXTENDS KRaft

CONSTANT Witnesses, MaxSpared

VARIABLES
    behind,     \* whether a voter whose log is behind has asked the witness since it last heard a leader
    spared      \* how many majorities in a row the witness has left to the others

witnessVars == <<behind, spared>>

InitWitness ==
    /\ behind = [w \in Witnesses |-> FALSE]
    /\ spared = [w \in Witnesses |-> 0]

Majorities == 3

\* Code: protocol.witness.WitnessStanding.campaigns_at_s
MayLead(w) ==
    /\ ~Broken("witnesses never lead")
    /\ \/ behind[w] \/ spared[w] >= Majorities
       \/ VotersIn(w) = {w}
       \/ Broken("witnesses campaign like others")

\* A voter asks for a vote or a pre-vote, and its log is behind.
\* Code: protocol.witness.WitnessStanding.asked
AskWitness(w, c) ==
    /\ IsUp(c) /\ role[c] \in {"Prospective", "Candidate"} /\ c \notin Witnesses
    /\ Asks(c, w) /\ IsVoter(VotersIn(w), c)
    /\ ~AtLeastAsUpToDate(log[c], log[w])
    /\ ~behind[w]
    /\ behind' = [behind EXCEPT ![w] = TRUE]
    /\ UNCHANGED <<vars, spared>>

\* The witness has a majority's pre-votes and does not use them.
\* Code: protocol.witness.WitnessStanding.spared_majority
SpareMajority(w) ==
    /\ IsUp(w) /\ role[w] = "Prospective" /\ HasWon(w) /\ ~MayLead(w)
    /\ spared[w] < MaxSpared
    /\ spared' = [spared EXCEPT ![w] = @ + 1]
    /\ role' = [role EXCEPT ![w] = IF leader[w] = Nobody THEN "Unattached" ELSE "Follower"]
    /\ grants' = [grants EXCEPT ![w] = {}]
    /\ UNCHANGED <<durable, directory, contact, hw, known, running, ghosts, spent, behind>>

\* A witness resigns once its log is committed and another voter has all of it.
\* Code: actors.kafka.witness_handover.WitnessHandover.run
HandOver(w) ==
    /\ IsUp(w) /\ role[w] = "Leader"
    /\ hw[w] = Len(log[w])
    /\ \E v \in Replicas : v # w /\ IsVoter(VotersIn(w), v) /\ known[w][v] >= Len(log[w])
    /\ ~Broken("witnesses do not hand over")
    /\ Become(w, "Resigned", epoch[w], w, w)
    /\ UNCHANGED <<grants, log, start, base, snap, hw, running, ghosts, spent, witnessVars>>

StepWithRestraint ==
    /\ Next
    /\ \A w \in Witnesses :
        /\ role'[w] = "Candidate" /\ role[w] = "Prospective" => MayLead(w)
        /\ role[w] = "Leader" /\ role'[w] = "Leader" => spent'.records = spent.records \/ log'[w] = log[w]
    \* What is heard from a leader, or as leader, begins all anew.
    /\ LET fetched(w) == (contact'[w] = "fetched" /\ log'[w] # log[w]) \/ role'[w] = "Leader"
       IN  /\ behind' = [w \in Witnesses |-> IF fetched(w) THEN FALSE ELSE behind[w]]
           /\ spared' = [w \in Witnesses |-> IF fetched(w) THEN 0 ELSE spared[w]]

NextWithWitnesses ==
    \/ StepWithRestraint
    \/ \E w \in Witnesses : HandOver(w) \/ SpareMajority(w)
    \/ \E w \in Witnesses, c \in Replicas : AskWitness(w, c)

\* Invariant WitnessesLeadLast.
WitnessesLeadLast ==
    [][\A w \in Witnesses :
        role'[w] = "Candidate" /\ role[w] = "Prospective"
            => behind[w] \/ spared[w] >= Majorities \/ VotersIn(w) = {w}]_<<vars, witnessVars>>

\* A witness that has a majority can use it, if a voter is behind or after some times.
WitnessesCanLead ==
    \A w \in Witnesses :
        /\ IsUp(w) /\ role[w] = "Prospective" /\ HasWon(w) /\ epoch[w] < MaxEpoch
        /\ behind[w] \/ spared[w] >= Majorities
        => MayLead(w) /\ ENABLED BecomeCandidate(w)

\* A witness appends nothing of clients, and can resign as soon as another voter has
\* its whole log.
\* Invariant WitnessesHandOver.
WitnessesHandOver ==
    /\ \A w \in Witnesses : role[w] = "Leader" =>
        Len(log[w]) = EpochStart(w) + 1 \/ VotersRecords(w) # {}
    /\ \A w \in Witnesses :
        (/\ role[w] = "Leader" /\ hw[w] = Len(log[w])
         /\ \E v \in VotersIn(w) : v # w /\ known[w][v] >= Len(log[w])) => ENABLED HandOver(w)

=============================================================================
