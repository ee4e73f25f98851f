"""Results of runs (replays of a trace): the tables of a run, numbers such as the mean wait, and the folder of a run.

The numbers are called columns, because a comparison shows one in each column. They depend on the tables alone, so
another program can compute them again from the tables in the folder, the bundle.
"""
