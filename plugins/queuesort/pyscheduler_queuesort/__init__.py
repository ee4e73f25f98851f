"""Queue orders for pyscheduler that know groups of pods. `GangSort` is the plugin's name in a profile.

Belongs here: QueueSort plugins, built on the public contract (`pyscheduler.framework`, `pyscheduler.podgroup`) alone.
Does not belong here: deciding whether a group may be scheduled; that is other plugins' work.
"""
