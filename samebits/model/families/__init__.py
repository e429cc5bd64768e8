"""One short file for each family of architectures.

A family is layers in order; its arithmetic comes from numerics.
"""
