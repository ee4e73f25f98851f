"""Recorded answers of kube-scheduler, held against ours: every case, every field."""
