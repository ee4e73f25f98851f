"""The stories of pods: why each pod waits, for how long, and how its wait ended.

Belongs here: the record of one story, the collection of all stories (`StoryBook`), and their display.
Does not belong here: the code that reports what happens to a pod (through `pyscheduler.framework.stories`).
"""
