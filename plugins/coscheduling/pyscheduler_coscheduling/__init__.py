"""Groups of pods that are bound together or not at all. `Coscheduling` is the plugin's name in a profile.

Belongs here: the rules of scheduler-plugins' coscheduling plugin, built on the public contract
(`pyscheduler.framework`, `pyscheduler.podgroup`, `pyscheduler.api`) alone. Does not belong here: how groups are written
down, who their members are, and how the queue works; that is the core's.
"""
