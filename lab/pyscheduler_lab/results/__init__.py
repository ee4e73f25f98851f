"""Results of replays: the tables of a run, the numbers computed from them, and the folder of a run (its bundle).

Belongs here: the schema of the tables, the columns of results, the comparison of runs, rules about results. Does not
belong here: anything that decides during a replay. The columns are computed from the tables, so that another program
can compute them again from a bundle.
"""
