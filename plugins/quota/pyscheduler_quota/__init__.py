"""Quota that groups of pods reserve: a group waits until the quotas of its namespace have room for the whole group.

Begin with `controller`, which the group plugins share. `quotas` has the arithmetic of ResourceQuotas. `claims` and
`reservations` have the quota that groups need and reserve. `admission` and `cli` have the webhook that keeps other pods
off reserved quota.
"""
