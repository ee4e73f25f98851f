"""Run recorded decisions of batch schedulers again: a case is a small cluster, or a few queues, and its answer."""
