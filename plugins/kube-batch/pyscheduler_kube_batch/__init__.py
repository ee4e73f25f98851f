"""The rules of kube-batch for the plugin `Batch`: kube-batch's actions (steps of a scheduling round) and plugins."""
