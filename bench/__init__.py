"""Benchmarks, run by a person: they print tables, and never belong to the tests."""
