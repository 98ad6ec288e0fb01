"""What exists only among Apache Kafka's controllers: the witness, its registration, and the guard of their quorum.

`WitnessRestraint` owns how long a witness leaves elections to others.
Doors: `ControllerRegistrar`, `WitnessHandover`, `ControllersGuard`.
"""
