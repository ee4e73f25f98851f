"""Results of replays: the tables of a run, the columns of results, and the folder of a run (its bundle).

A column of results is a number that is computed from the tables alone. So another program can compute it again from a
bundle. Belongs here: the schema of the tables, the columns, the comparison of runs, rules about results. Does not
belong here: anything that decides during a replay.
"""
