"""Quota that groups of pods reserve: a group waits until the quotas of its namespace have room for the whole group.

Begin with `controller`, which decides when groups get quota. `admission` and `cli` have the webhook that keeps other
pods off reserved quota.
"""
