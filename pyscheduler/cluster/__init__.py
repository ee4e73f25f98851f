"""The scheduler's client of the API server.

The client lists, watches and writes objects, records Events and renews the Lease.
"""
