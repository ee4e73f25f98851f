"""Reserve quota for groups of pods: a group waits until the quotas of its namespace have room for the whole group.

Begin with `controller`. `admission` and `cli` have the webhook that refuses other pods if they need reserved quota.
"""
