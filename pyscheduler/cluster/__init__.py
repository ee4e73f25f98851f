"""The API server as the scheduler sees it: the client path (`real`) and an API server in the package (`embedded`).

Belongs here: transports, list and watch, writes, rate limits, events, leases, the embedded server. Does not belong
here: any decision about a pod. Of the scheduler this room knows `pyscheduler.scheduler.ports` only.
"""
