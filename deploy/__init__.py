"""The Helm chart of pyscheduler, and the programs that make its generated files."""
