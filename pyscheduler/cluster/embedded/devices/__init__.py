"""Dynamic resources: what the API server knows of devices, claims on them, and what becomes of claims.

Belongs here: the kinds of `resource.k8s.io/v1`, their defaults, what is wrong with them and how they are printed, and
the controller that makes claims from templates and gives up what nobody uses any more. Does not belong here: which
device a claim gets, which the scheduler decides, and drivers, which nobody plays.
"""
