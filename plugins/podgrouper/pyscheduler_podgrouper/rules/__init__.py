"""Rules for grouping the pods of each kind of workload, one module for each family of kinds."""
