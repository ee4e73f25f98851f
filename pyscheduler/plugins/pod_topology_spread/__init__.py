"""PodTopologySpread: spread pods over domains, which are zones, hosts, or the values of any other node label.

Belongs here: the plugin, its constraints, the counts of matching pods per domain, and the default constraints for pods
that have none. Does not belong here: the counts of pods per node (the snapshot).
"""
