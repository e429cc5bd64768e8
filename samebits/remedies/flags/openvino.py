"""Flags of OpenVINO. All are properties given when a model is compiled."""

from samebits.remedies.flags.cpu import HASH_FLAG
from samebits.remedies.flags.table import DOCUMENTED, THREADS, EngineFlags, Flag, Kind

PRECISION = (
    "https://docs.openvino.ai/2025/openvino-workflow/running-inference/optimize-inference/"
    "precision-control.html"
)
SCHEDULING = (
    "https://docs.openvino.ai/2025/openvino-workflow/running-inference/"
    "inference-devices-and-modes/cpu-device/performance-hint-and-thread-scheduling.html"
)

ENGINE = EngineFlags(
    name="openvino",
    title="OpenVINO",
    flags=(
        Flag(
            kind=Kind.CALL,
            name="properties.inference_num_threads",
            value=THREADS,
            fixes="how many logical processors an inference may use",
            not_covered="how attention splits its work between steps "
            "(https://github.com/openvinotoolkit/openvino/pull/30482)",
            cost="none stated",
            checked=DOCUMENTED,
            source=SCHEDULING,
        ),
        Flag(
            kind=Kind.CALL,
            name="properties.num_streams",
            value="1",
            fixes="that one request runs at a time, with all the threads",
            not_covered="requests that were put into one batch",
            cost="throughput",
            checked=DOCUMENTED,
            source=SCHEDULING,
        ),
        Flag(
            kind=Kind.CALL,
            name="properties.hint.inference_precision",
            value='"f32"',
            fixes="float32 on any device, instead of what the device is fastest in",
            not_covered="the order of sums",
            cost="bandwidth and special units for 16-bit numbers are not used",
            checked=DOCUMENTED,
            source=PRECISION,
        ),
        Flag(
            kind=Kind.CALL,
            name="properties.hint.execution_mode",
            value="ExecutionMode.ACCURACY",
            fixes="that the device does not trade accuracy for speed",
            not_covered="other batch sizes and devices",
            cost="performance mode is there for speed",
            checked=DOCUMENTED,
            source=PRECISION,
        ),
        HASH_FLAG,
    ),
    not_covered=("Other batch sizes: nothing here makes kernels batch-invariant.",),
    next_step="Ask the compiled model: compiled_model.get_property(...) gives what is in force.",
)
