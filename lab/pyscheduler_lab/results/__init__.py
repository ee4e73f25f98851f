"""The results of a simulation: tables, numbers such as the mean wait, and the folder in which they are stored."""
