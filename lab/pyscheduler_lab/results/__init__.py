"""Results of replays: the tables of a run, columns computed from the tables, and the folder of a run (its bundle).

Columns depend on the tables alone, so another program can compute the columns of a bundle again.
"""
