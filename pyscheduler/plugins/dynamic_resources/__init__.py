"""Devices for the pod's resource claims: which ones, on which node, and who may use them.

Belongs here: DynamicResources, the choice of devices per node, what is promised until the API server has it, and the
writes that allocate and reserve. Does not belong here: making claims from templates and ending them, which the
cluster's own controller does, and setting devices up, which is their drivers' part.
"""
