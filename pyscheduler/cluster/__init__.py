"""The scheduler's client of the API server: transports, list and watch, writes, rate limits, events and leases.

From `pyscheduler.scheduler`, this package imports only `ports`, the interfaces that the client implements.
"""
