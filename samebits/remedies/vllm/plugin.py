"""The entry point: joins the guard with the classes that vLLM looks for.

Whatever runner a server has, it must start with this installed. The V2 runner refuses plugins that
are no processors of its own, so the class is one of either kind as far as vLLM has them; under V2
it guards nothing and requests that ask for it are refused.
"""

from importlib import import_module

from samebits.remedies.vllm.processor import GuardProcessor

HOMES = ("vllm.v1.sample.logits_processor", "vllm.v1.worker.gpu.sample.logits_processor")


def find_bases() -> tuple[type, ...]:
    """Give vLLM's processor classes, those of its two runners that this version has."""
    found = []
    for home in HOMES:
        try:
            found.append(import_module(home).LogitsProcessor)
        except ModuleNotFoundError as error:
            if not home.startswith(str(error.name)):
                raise
    return tuple(found)


Processor = type(
    "Processor",
    (GuardProcessor, *find_bases()),
    {"vllm_version": import_module("vllm").__version__, "__doc__": GuardProcessor.__doc__},
)
