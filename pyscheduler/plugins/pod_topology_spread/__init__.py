"""Spreading pods over domains: zones, hosts, or whatever label of nodes makes a place.

Belongs here: PodTopologySpread, what its constraints mean, how matching pods are counted per domain, and how
constraints are made up for pods that bring none. Does not belong here: counting pods per node, which the snapshot does.
"""
