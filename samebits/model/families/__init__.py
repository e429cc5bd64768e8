"""One short file for each family of architectures.

A family turns settings into a ModelConfig and names its tensors; one decoder runs them all.
"""
