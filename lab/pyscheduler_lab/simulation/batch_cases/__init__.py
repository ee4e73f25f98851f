"""Run cases: scheduling cycles of KAI, Volcano or kube-batch that were recorded or written by hand."""
