"""The scheduler's client of the API server.

Belongs here: transports, list and watch, writes, rate limits, events, leases. Does not belong here: any decision about
a pod. From `pyscheduler.scheduler`, this package imports only `ports`, the interfaces that the client implements.
"""
