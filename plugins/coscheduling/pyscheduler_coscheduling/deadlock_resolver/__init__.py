"""The resolver of deadlocks, which the group plugins of one scheduler share. Begin with `deadlocks`.

Belongs here: which groups are in a deadlock (`units`, `history`), who wins (`rules`), and which groups give up their
nodes (`plan`). Does not belong here: which members a group lacks, and how it gives back nodes; plugins implement that
(`units.DeadlockParty`).
"""
