"""Answers kept for the next equal request: key, admission, store, sharing of requests in flight.

Knows neither engines nor HTTP. Normative: docs/formats.md, "Output cache".
"""

from samebits.cache.admission import Admission, Refusal
from samebits.cache.answer import Answer, Ending
from samebits.cache.control import Control
from samebits.cache.counts import Outcome, Tally
from samebits.cache.fault import StoreFault
from samebits.cache.key import Identity, Request
from samebits.cache.output_cache import OutputCache
from samebits.cache.shelf import Fetched

__all__ = [
    "Admission",
    "Answer",
    "Control",
    "Ending",
    "Fetched",
    "Identity",
    "Outcome",
    "OutputCache",
    "Refusal",
    "Request",
    "StoreFault",
    "Tally",
]
