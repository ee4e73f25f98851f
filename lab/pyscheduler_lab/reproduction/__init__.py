"""Published experiments, run again with the scheduler that ships, and the published results beside ours.

Belongs here: what an experiment does, its numbers and those that were published, with their source. Does not belong
here: policies; they are plugins of their own distributions and run in a profile.
"""
