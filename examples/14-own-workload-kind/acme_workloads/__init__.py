"""The rule of a workload kind as a distribution of its own."""
