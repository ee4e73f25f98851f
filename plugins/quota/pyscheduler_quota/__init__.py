"""Reserve quota for groups of pods: a group waits until the quotas of its namespace have room for the whole group.

Begin with `controller`.
"""
