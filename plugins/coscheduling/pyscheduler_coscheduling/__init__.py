"""Groups of pods that are bound together or not at all: the plugin `Coscheduling`.

Belongs here: the rules of scheduler-plugins' coscheduling plugin, built on the public contract
(`pyscheduler.framework`, `pyscheduler.podgroup`, `pyscheduler.api`) alone. Does not belong here: dialects (the labels,
annotations and objects by which one system describes groups), the members of groups, and the queue: these are the
core's.
"""
