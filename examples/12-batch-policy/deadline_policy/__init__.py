"""A policy for the plugin Batch, for jobs with deadlines.

The job with the nearest deadline is placed first. No job is evicted in the hour before its deadline.
"""
