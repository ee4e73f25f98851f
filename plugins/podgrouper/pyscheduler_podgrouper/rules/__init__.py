"""The rules of workload kinds, one module for each family of kinds."""
