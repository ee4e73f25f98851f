"""A report: one HTML file that compares runs, from their bundles (folders with all results of a run).

The file has the data of the charts, and a script (`page.js`) that draws the charts in the browser. The file loads
nothing from the network.
"""
