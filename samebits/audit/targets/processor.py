"""What a processor must be able to do before a variable may make a library use it.

Libraries believe such variables: OPENBLAS_CORETYPE=SkylakeX on a processor without AVX-512 ends
the process.
"""

from collections.abc import Iterable, Mapping, Set

NEEDS: Mapping[str, Mapping[str, str]] = {
    "OPENBLAS_CORETYPE": {
        "skylakex": "avx512f",
        "cooperlake": "avx512f",
        "sapphirerapids": "avx512f",
        "haswell": "avx2",
        "zen": "avx2",
        "excavator": "avx2",
        "sandybridge": "avx",
        "bulldozer": "avx",
        "piledriver": "avx",
        "steamroller": "avx",
        "nehalem": "sse4_2",
        "prescott": "pni",
    },
    "ATEN_CPU_CAPABILITY": {"default": "", "avx2": "avx2", "avx512": "avx512f"},
}
"""Variable, then value in lower case, to the flag of /proc/cpuinfo that it takes. Only of variables
that are obeyed on a processor without the flag: MKL and oneDNN look for themselves."""


def refuse_variables(variables: Iterable[tuple[str, str]], flags: Set[str]) -> str:
    """Say which variable asks for what the processor lacks; empty if none does."""
    for name, value in variables:
        needed = NEEDS.get(name, {}).get(value.lower(), "")
        if name in NEEDS and value.lower() not in NEEDS[name]:
            return f"what {name}={value} takes of a processor is not known"
        if needed and needed not in flags:
            return f"{name}={value} takes {needed}, which this processor lacks"
    return ""
