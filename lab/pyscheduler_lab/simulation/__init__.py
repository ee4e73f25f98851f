"""Run the real scheduler on simulated clusters: replay traces of jobs, run scenario files, and report the results.

Belongs here: whatever feeds the scheduler with simulated clusters. Does not belong here: a second scheduler;
simulations run the one that users run. The package opens no sockets.
"""
