"""Authentication and RBAC authorization of the test server.

The package also records which permissions a program used, so that a test can find unneeded permissions.
"""
