"""Repeat recorded decisions of other batch schedulers. A case has a cluster, or a few queues."""
