"""Small plugins, one idea each; docs/how-to/write-a-plugin.md explains them."""
