"""The API server as the scheduler sees it: the client path.

Belongs here: transports, list and watch, writes, rate limits, events, leases. Does not belong here:
any decision about a pod. Of the scheduler this room knows `pyscheduler.scheduler.ports` only.
"""
