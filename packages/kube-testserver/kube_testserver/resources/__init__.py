"""The resources that the server serves: the class `Resource`, the table of resources, and views of stored objects.

The package `schema` has the fields of each kind, and `rules` checks their values.
"""
