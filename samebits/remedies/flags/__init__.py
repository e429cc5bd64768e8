"""What is known of the settings that fix an engine's kernels, graphs and order of sums.

One short file of data for each engine. Every row names the page or source file it was read in, and
what it was checked against; nothing here is measured by us unless the row says so.
"""
