"""Run the real scheduler on simulated clusters: replay traces of jobs, run scenario files, and report the results.

Belongs here: everything that runs the scheduler on simulated clusters. Does not belong here: a second implementation of
scheduling; simulations run the same scheduler as users. The package opens no sockets, except to the extenders of a
profile.
"""
