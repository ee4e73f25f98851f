"""The embedded API server's authentication, RBAC authorization, and the kinds these are set by.

What belongs here: bearer tokens, users and groups, roles and bindings made into decisions, the record of which rule was
used, the roles a cluster is born with, and the review kinds by which a client asks about all of it. What does not:
sockets, and what a request does once it is allowed.
"""
