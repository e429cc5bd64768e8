"""Canonical bytes, tagged digests and receipts.

Knows what was written, not how it came about.
"""
