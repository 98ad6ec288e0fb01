"""Election: epochs, votes and roles, and the tasks that run in each role.

`Election` owns epoch, leader and vote, and quorum-state on the disk; `epoch_tasks` starts what runs in an epoch.
Doors: `Election`, whose `QuorumView` everybody reads, and `Leadership` for the application.
"""
