"""The resources that the server serves: the class `Resource`, the table of resources, and views of stored objects.

Belongs here: the rows of the table for each API group, which say what is served and under which names, the resources
that CustomResourceDefinitions define, the scale of an object, the two versions of an event. Does not belong here: the
fields of a kind (`schema`) and the values that the server accepts (`rules`).
"""
