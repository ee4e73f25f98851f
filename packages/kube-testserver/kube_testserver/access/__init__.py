"""Authentication and RBAC authorization of the test server.

The package also records which permissions were used, so that a test can find those that a program does not need.
"""
