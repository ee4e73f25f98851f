"""Quota that groups of pods reserve: a group waits until the quotas of its namespace can take all of the group.

Belongs here (begin with `controller`):

- the controller that group plugins share (`controller`)
- the arithmetic of ResourceQuotas (`quotas`)
- the quota that groups need and reserve (`claims`, `reservations`)
- the webhook that refuses pods of others if they would use reserved quota (`admission`, `cli`)

Does not belong here: the definition of a group, and the decision to try its members. pyscheduler itself and the group
plugins do that.
"""
