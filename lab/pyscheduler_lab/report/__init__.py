"""A report: one HTML file that compares simulations, from the folders with their results.

The file has the data of the charts, and a script that draws them in the browser.
"""
