"""Run the scheduler on simulated clusters: replay traces of jobs, run scenario files, and report the results.

Simulations run the scheduler that users run, not a model of it.
"""
