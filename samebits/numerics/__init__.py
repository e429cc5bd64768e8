"""The arithmetic of the contract, and the plain one beside it.

Knows arrays only; docs/numerics.md is normative.
"""
