"""Gang scheduling as in Koordinator: members of a gang are bound only after enough of them have found nodes.

`pyscheduler.podgroup` defines groups and their members. `pyscheduler_coscheduling` has the resolver of deadlocks, and
`pyscheduler_queuesort` the order of the queue. Begin with `plugin`, then `gangs` (records), `rounds` (attempts) and
`verdicts` (waits at Permit).
"""
