"""Turns model files into weights and token ids into logits.

Knows no requests, batches over time or sampling.
"""
