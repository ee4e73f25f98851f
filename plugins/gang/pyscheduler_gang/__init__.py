"""Gang scheduling for pyscheduler, as in Koordinator: the minimum of a gang is bound together, or no member is.

Belongs here: the plugin `Gang` and its data about gangs. Does not belong here: the definition of groups and their
members (`pyscheduler.podgroup`), the resolver of deadlocks (`kube-pyscheduler-coscheduling`), and the order of the
queue (`kube-pyscheduler-queuesort`).

Begin with `plugin`, then `gangs` (records), `rounds` (the schedule cycle) and `verdicts` (waits at Permit).
"""
