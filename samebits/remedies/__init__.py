"""Remedies for engines that we did not write: seeds, flags, shapes, precision, a margin guard.

Imports without PyTorch; what needs it says which extra to install.
"""
