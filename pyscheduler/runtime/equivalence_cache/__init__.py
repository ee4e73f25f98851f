"""The equivalence cache: answers of plugins about one pod are reused for equal pods, such as replicas."""
