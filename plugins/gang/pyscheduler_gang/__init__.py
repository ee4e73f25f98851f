"""Gang scheduling for pyscheduler, as Koordinator does it: enough members of a gang are bound together, or none is.

Belongs here: the plugin `Gang` and what it keeps of its gangs, built on the public contract (`pyscheduler.framework`,
`pyscheduler.podgroup`, `pyscheduler.api`) alone. Does not belong here: what a group is and who its members are
(`pyscheduler.podgroup`), and the order of the queue (`kube-pyscheduler-queuesort`).

To read it, begin with `plugin`, then `gangs` (what is known), `rounds` (the schedule cycle) and `verdicts` (who waits,
and how that ends).
"""
