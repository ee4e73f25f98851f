"""Gang scheduling for pyscheduler, as in Koordinator: the minimum of a gang is bound together, or no member is.

Belongs here: the plugin `Gang` and its data about gangs, built on the public contract only (`pyscheduler.framework`,
`pyscheduler.podgroup`, `pyscheduler.api`). Does not belong here: the definition of groups and their members
(`pyscheduler.podgroup`), and the order of the queue (`kube-pyscheduler-queuesort`).

Begin with `plugin`, then `gangs` (records), `rounds` (the schedule cycle) and `verdicts` (waits at Permit).
"""
