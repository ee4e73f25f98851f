"""The results of a simulation: tables, numbers such as the mean wait, and the folder in which they are stored.

The numbers are computed from the tables alone, so other programs can compute the numbers again.
"""
