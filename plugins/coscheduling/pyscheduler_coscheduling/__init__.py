"""The plugin `Coscheduling`: a group of pods starts with at least its minimum of pods, or not at all.

Belongs here: the rules of scheduler-plugins' coscheduling plugin, built on the public contract
(`pyscheduler.framework`, `pyscheduler.podgroup`, `pyscheduler.api`). Does not belong here, because pyscheduler itself
has it: the queue, the members of groups, and dialects (the labels, annotations and objects by which one system
describes groups).
"""
