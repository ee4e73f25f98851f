"""Run test cases of KAI, Volcano or kube-batch: compute fair shares, or run a scheduling round on a given cluster."""
