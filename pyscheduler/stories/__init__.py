"""The stories of pods: why each pod waits, for how long, and how its wait ended.

`StoryBook` collects the stories.
"""
