"""The plugin `Coscheduling`: a group of pods starts with at least its minimum of pods, or not at all.

The rules are those of the plugin Coscheduling in kubernetes-sigs/scheduler-plugins.
"""
