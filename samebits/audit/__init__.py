"""Measures how unstable a model or an endpoint is.

Runs experiments and judges them; it does not draw reports.
"""
