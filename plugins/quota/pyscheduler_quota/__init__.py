"""Quota that groups of pods reserve: a group waits until the quotas of its namespace can take all of the group.

Belongs here: the arithmetic of ResourceQuotas (`quotas`), the claims of groups to quota (`claims`, `reservations`), the
controller that group plugins share (`controller`; begin with it), the webhook that refuses other pods which would take
reserved quota (`admission`, `cli`), and the names of the commands (`commands`). Does not belong here: what a group is,
and when its members are tried; the core and the group plugins decide that.
"""
