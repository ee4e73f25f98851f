"""Quota that groups of pods reserve: a group waits until the quotas of its namespace have room for all of it.

Belongs here: the arithmetic of ResourceQuotas (`quotas`), the claims of groups (`claims`, `reservations`), the
controller that group plugins share (`controller`, where to begin), and the webhook that keeps other pods out
(`admission`, `cli`). Does not belong here: what a group is, and when its members are tried; that is for the core and
for group plugins.
"""
