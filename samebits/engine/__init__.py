"""Runs requests: pages, scheduler, sampler, receipts.

Knows no file format and no command line.
"""

from samebits.engine.engine import Engine
from samebits.engine.in_force import Setting
from samebits.engine.limits import Limits
from samebits.engine.output import Completion, FinishedEvent, Output, TokenEvent
from samebits.engine.prompt import Message, Prompt
from samebits.engine.request import SamplingParams
from samebits.engine.sample import TokenLogprobs

__all__ = [
    "Completion",
    "Engine",
    "FinishedEvent",
    "Limits",
    "Message",
    "Output",
    "Prompt",
    "SamplingParams",
    "Setting",
    "TokenEvent",
    "TokenLogprobs",
]
