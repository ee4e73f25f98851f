"""The stories of pods: why each pod waits, for how long, and how its wait ended.

It has the record of one story, the collection of all stories (`StoryBook`), and their display.
"""
