"""The embedded API server's authentication and RBAC authorization, and the kinds of objects that configure them.

What belongs here: bearer tokens, users and groups, decisions by roles and bindings, the record of the rules that were
used, the default roles of a cluster, and the review kinds by which clients ask about users and permissions. What does
not: sockets, and the work that a request causes once it is allowed.
"""
