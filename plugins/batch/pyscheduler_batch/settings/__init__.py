"""The configuration of batch profiles: the args of `Batch`, and the files of batch systems that can replace them."""
