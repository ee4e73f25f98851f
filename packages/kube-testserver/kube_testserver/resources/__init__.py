"""The resources that the server serves: the class `Resource`, the table of resources, and views of stored objects.

Does not belong here: the fields of a kind (`schema`), and the rules for their values (`rules`).
"""
