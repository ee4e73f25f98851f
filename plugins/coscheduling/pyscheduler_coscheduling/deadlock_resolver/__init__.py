"""The resolver of deadlocks, which the group plugins of one scheduler share. Begin with `deadlocks`.

`rules` decides which groups are in a deadlock and may win, and `plan` chooses the winner and the groups that yield.
Plugins implement `units.DeadlockParty`: which members a group lacks, and how it gives back nodes.
"""
