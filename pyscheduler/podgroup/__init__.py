"""One model of a pod group over all dialects, for every group plugin, ours and others'.

Belongs here: what a group is, however it is written down. Does not belong here: who schedules it, and any I/O. Nothing
is here yet: gang scheduling comes with its own plugins; the room has its place in the import contracts already.
"""
