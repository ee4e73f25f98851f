"""The resolver of deadlocks, which the group plugins of one scheduler share. Begin with `deadlocks`.

Belongs here: the groups and their attempts (`units`, `history`), which groups are in a deadlock and may win (`rules`),
and the choice of the winner and of the groups that yield (`plan`). Does not belong here: which members a group lacks,
and how it gives back nodes; plugins implement that (`units.DeadlockParty`).
"""
