"""Results of replays: the tables of a run, columns computed from the tables, and the folder of a run (its bundle).

The columns depend on the tables alone, so another program can compute them again from the tables of a bundle.
"""
