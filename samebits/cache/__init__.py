"""Answers kept for the next equal request: key, admission, store, sharing of requests in flight.

Knows neither engines nor HTTP. Normative: docs/formats.md, "Output cache".
"""
