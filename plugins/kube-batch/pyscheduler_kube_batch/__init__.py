"""The rules of kube-batch for the plugin `Batch`: its actions (steps of a scheduling round) and its plugins."""
