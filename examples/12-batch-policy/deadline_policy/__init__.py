"""A policy for the plugin Batch: jobs with a near deadline are first, and keep their nodes in the hour before it."""
