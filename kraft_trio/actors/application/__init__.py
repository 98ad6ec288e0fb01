"""Between the quorum and the application: appends and reads go out, committed records come in.

`Appender` owns the appends under way, `StateMachineDriver` what the application has applied.
Doors: `Appender`, `CommandExecutor`, `ReadIndexLookup`.
"""
