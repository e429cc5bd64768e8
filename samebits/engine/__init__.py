"""Runs requests: pages, scheduler, sampler, receipts.

Knows no file format and no command line.
"""
