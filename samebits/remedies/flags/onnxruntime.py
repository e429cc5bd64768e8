"""Flags of ONNX Runtime. It reads no environment variable of these: all are calls."""

from samebits.remedies.flags.cpu import HASH_FLAG
from samebits.remedies.flags.table import DOCUMENTED, THREADS, Device, EngineFlags, Flag, Kind

THREADING = "https://onnxruntime.ai/docs/performance/tune-performance/threading.html"
OPTIONS = "SessionOptions()"

ENGINE = EngineFlags(
    name="onnxruntime",
    title="ONNX Runtime",
    flags=(
        Flag(
            kind=Kind.CALL,
            name=f"{OPTIONS}.intra_op_num_threads",
            value=THREADS,
            fixes="into how many parts an operator splits its sums",
            not_covered="providers other than the CPU's; the default is one thread a core",
            cost="none stated",
            checked=DOCUMENTED,
            source=THREADING,
            device=Device.CPU,
        ),
        Flag(
            kind=Kind.CALL,
            name=f"{OPTIONS}.execution_mode",
            value="ExecutionMode.ORT_SEQUENTIAL",
            fixes="that operators run one after the other (the default)",
            not_covered="the order of sums inside an operator",
            cost="models with many branches may be slower",
            checked=DOCUMENTED,
            source=THREADING,
        ),
        Flag(
            kind=Kind.CALL,
            name=f"{OPTIONS}.graph_optimization_level",
            value="GraphOptimizationLevel.ORT_DISABLE_ALL",
            fixes="that no operators are fused and no layouts changed",
            not_covered="kernels that a provider chooses by shape",
            cost="the speed that fusing gives",
            checked=DOCUMENTED,
            source="https://onnxruntime.ai/docs/api/csharp/api/"
            "Microsoft.ML.OnnxRuntime.GraphOptimizationLevel.html",
            is_set=False,
        ),
        Flag(
            kind=Kind.CALL,
            name=f"{OPTIONS}.use_deterministic_compute",
            value="True",
            fixes="deterministic GPU kernels where there are some",
            not_covered="kernels without such a form; other batch sizes",
            cost="most likely slower",
            checked="from documentation: since 1.17",
            source="https://pub.dev/documentation/flutter_ort_plugin/0.0.1/"
            "bindings_onnxruntime_generated/OrtApi/SetDeterministicCompute.html",
            device=Device.GPU,
        ),
        HASH_FLAG,
    ),
    not_covered=(
        "Other batch sizes and padded lengths: nothing here makes kernels batch-invariant.",
        "OMP_NUM_THREADS: the runtime has a thread pool of its own.",
    ),
    next_step="The runtime reports no threads: print the options of your session.",
)
