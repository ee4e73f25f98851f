"""Results of runs (replays of a trace): tables, numbers such as the mean wait (`columns`), and the folder of a run.

The numbers are computed from the tables alone, so other programs can compute the numbers again.
"""
