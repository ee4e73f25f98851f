"""The resources that the server serves: their class, their table, the rows of every group, and views of stored objects.

Belongs here: what is served and under which names, the resources that CustomResourceDefinitions define, the scale of an
object, the two versions of an event. Does not belong here: the fields of a kind (`schema`) and the values that the
server accepts (`rules`).
"""
