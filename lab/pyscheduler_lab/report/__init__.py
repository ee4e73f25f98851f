"""A report: one HTML file that compares runs, from their bundles (folders with all results of a run).

`series` computes the numbers of the charts from the measures of a bundle; `page` writes the file. The script in
`page.js` draws the charts in the browser as SVG, with the data in the file. Nothing is loaded from elsewhere.
"""
