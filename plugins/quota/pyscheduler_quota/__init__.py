"""Quota that groups of pods reserve: a group waits until the quotas of its namespace have room for all of it.

Belongs here: the arithmetic of ResourceQuotas (`quotas`), the claims of groups (`claims`, `reservations`), the
controller that group plugins share (`controller`; begin with it), and the webhook that refuses other pods which would
take reserved quota (`admission`, `cli`). Does not belong here: what a group is, and when its members are tried; the
core and the group plugins decide that.
"""
