"""Results of runs (replays of a trace): tables, numbers such as the mean wait (`columns`), and the folder of a run.

The numbers are computed from the tables alone. The folder has the tables, so other programs can compute them again.
"""
