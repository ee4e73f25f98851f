"""The configuration of the plugin `Batch`: its args, or the configuration file of a batch system such as KAI."""
