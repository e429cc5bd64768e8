"""The guard for near-ties inside vLLM 0.32: a logits processor that requests ask for by argument.

vLLM finds it by an entry point (plugin.py); nothing else here imports vLLM. How to use it and what
it cannot do: docs/vllm-guard.md.
"""
