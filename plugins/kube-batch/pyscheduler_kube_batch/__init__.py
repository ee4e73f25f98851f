"""The preset `kube-batch`: actions and policies, with which a batch profile decides as kube-batch does."""
