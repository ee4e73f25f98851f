"""The configuration of a batch profile: the args of `Batch`, or the configuration file of a system such as KAI."""
