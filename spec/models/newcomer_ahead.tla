------------------------------ MODULE newcomer_ahead ------------------------------
(* A hazard: a leader that has been replaced adds a voter to its own log. The  *)
(* newcomer has a record of the next leader, which is gone. Then a majority of *)
(* each set is up, and nobody can be elected until the next leader is back.    *)

EXTENDS KRaft, TLC

CONSTANTS a, b, c, d

AllReplicas == {a, b, c, d}
Voters == {a, b, c}
Ids == [r \in AllReplicas |-> r]
Symmetry == Permutations({a, b, c})

=============================================================================
