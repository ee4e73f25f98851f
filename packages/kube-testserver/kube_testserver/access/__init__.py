"""The embedded API server's authentication and RBAC authorization, and the kinds of objects that configure them.

Belongs here: bearer tokens, users and groups, decisions by roles and bindings, the record of the rules that were used,
the default roles of a cluster, and the review kinds (TokenReview, SubjectAccessReview and others), with which clients
ask about users and permissions. Does not belong here: sockets, and the execution of an allowed request.
"""
