"""Repeat recorded decisions of batch schedulers: a case is a cluster or some queues, and the decision."""
