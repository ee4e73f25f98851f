"""Queue orders for pyscheduler that know groups of pods: the plugin `GangSort`.

Belongs here: QueueSort plugins, built on the public contract (`pyscheduler.framework`, `pyscheduler.podgroup`) alone.
Does not belong here: the decision whether a group may be scheduled, which other plugins make.
"""
