"""The command line: one short file for each verb.

Parses, builds, calls and prints; it alone reads environment variables.
"""
