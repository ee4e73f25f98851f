"""Authentication and RBAC authorization of the test server.

The package also records which permissions a program used, so that a test can find the ones that it does not need.
"""
