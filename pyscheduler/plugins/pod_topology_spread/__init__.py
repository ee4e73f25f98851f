"""Spread pods over domains: zones, hosts, or the values of any other node label.

Belongs here: PodTopologySpread, what its constraints mean, how matching pods are counted per domain, and the default
constraints for pods that have none. Does not belong here: counting pods per node, which the snapshot does.
"""
