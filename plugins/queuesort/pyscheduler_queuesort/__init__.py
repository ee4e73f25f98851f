"""The plugin `GangSort`: it sorts the scheduling queue so that the members of a group are tried one after another."""
