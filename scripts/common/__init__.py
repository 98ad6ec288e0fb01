"""What scripts share that play something against real processes and judge what they see.

`harness/` starts and ends the processes; here is the rest: the frame of a run, its verdicts, threads beside it.
"""
