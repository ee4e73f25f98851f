"""PodTopologySpread: spread pods over domains, which are zones, hosts, or the values of any other node label."""
