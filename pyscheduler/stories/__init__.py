"""The stories of pods: why each pod waits, for how long, and how its wait ended.

Belongs here: the record of a story, the book that keeps the stories, and their display. Does not belong here: the code
that reports what happens to a pod (through the interface `pyscheduler.framework.stories`), the queue, HTTP, and log
files.
"""
