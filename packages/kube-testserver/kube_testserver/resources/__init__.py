"""The resources that the server serves: the class `Resource`, the table of resources, and views of stored objects.

Belongs here: the rows of the table, which say what is served and under which names; the resources that
CustomResourceDefinitions define, and the checks of these definitions; the data of Secrets; and the views, which are the
scale of an object and the two versions of an event. Does not belong here: the fields of a kind (`schema`) and other
values that the server accepts (`rules`).
"""
