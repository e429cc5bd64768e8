"""What a machine is and has, as far as it can move bits, and how two of them differ.

Knows neither models nor audits. Normative: docs/formats.md, "Machine facts".
"""
