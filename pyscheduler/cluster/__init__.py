"""The scheduler's client of the API server. It lists, watches and writes objects, records Events and renews the Lease.

From `pyscheduler.scheduler`, this package imports only `ports`, the interfaces that the client implements.
"""
