"""The plugin `GangSort`, which orders the scheduling queue so that the members of a group are tried one after another.

Belongs here: QueueSort plugins, built on the public contract (`pyscheduler.framework`, `pyscheduler.podgroup`). Does
not belong here: the decision whether a group may be scheduled, which other plugins make.
"""
