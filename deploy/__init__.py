"""What runs pyscheduler in a cluster: the Helm chart, and the programs that make its generated files."""
