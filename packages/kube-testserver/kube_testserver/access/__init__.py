"""Authentication and RBAC authorization of the test server.

The package has tokens, users and groups, decisions by roles and bindings, the default roles, and a record of the rules
that were used. It also has the review kinds (TokenReview, SubjectAccessReview and others).
"""
