"""Settings of engines that reach their numbers: an allow-list, as of variables.

Engines print all their settings at once, keys and passwords among them, so a name that is not on
the list is counted and not kept, and neither is a value of another shape than its name takes.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from samebits.errors import ConfigError, RecordCorrupt
from samebits.lock.contents import EngineFlags
from samebits.lock.variables import HIDDEN
from samebits.record.canonical import parse_json

SWITCH = "true|false|none|auto|0|1|on|off|yes|no"
NUMBER = r"none|auto|-?\d{1,15}(\.\d{1,15})?(e[+-]?\d{1,3})?"
DTYPES = (
    "none|auto|(torch[.])?(half|float|double|float16|float32|float64|bfloat16)|fp8|fp8_e4m3|"
    "fp8_e5m2|fp8_inc|fp4_e2m1|int8|f16|f32|bf16|q8_0|q4_0|q4_1|q5_0|q5_1|iq4_nl"
)
QUANTIZATIONS = (
    "none|awq|awq_marlin|gptq|gptq_marlin|marlin|fp8|w8a8_fp8|w8a8_int8|bitsandbytes|gguf|"
    "compressed-tensors|modelopt|modelopt_fp4|mxfp4|mxfp8|torchao|qoq|moe_wna16|experts_int8|rtn"
)
BACKENDS = (
    "none|auto|eager|sdpa|flash_attention_[23]|flex_attention|flash_attn|flashinfer|torch_sdpa|"
    "torch_native|triton|triton_attn|xformers|fa[34]|flashmla|cutlass_mla|trtllm_mla|trtllm_mha|"
    "intel_amx|aiter|wave|pytorch|cpu_attn|xgrammar|outlines|llguidance|guidance|"
    "lm-format-enforcer|mp|ray|uni|external_launcher"
)
DEVICES = "none|auto|cpu|cuda|rocm|hip|xpu|tpu|hpu|mps|npu|metal|vulkan|sycl"
WORDS = (
    "none|auto|full|piecewise|full_and_piecewise|full_decode_only|lru|fcfs|lpm|random|dfs-weight|"
    "priority|linear|yarn|dynamic|llama3|longrope|layer|row|distribute|isolate|numactl|"
    "always|never|greedy|vllm|transformers|sglang|python|balanced|eagle|eagle3|ngram|medusa|mtp|"
    "deepseek_mtp|draft_model|naive|highest|high|medium"
)
TABLE = (
    (
        DTYPES,
        "dtype kv_cache_dtype cache_type_k cache_type_v compute_dtype torch_dtype ctk ctv "
        "mamba_cache_dtype mamba_ssm_cache_dtype",
    ),
    (QUANTIZATIONS, "quantization"),
    (
        BACKENDS,
        "attention_backend prefill_attention_backend decode_attention_backend sampling_backend "
        "attn_implementation attn_implementation_internal guided_decoding_backend "
        "grammar_backend structured_outputs_backend distributed_executor_backend "
        "mm_attention_backend",
    ),
    (DEVICES, "device device_type"),
    (
        WORDS,
        "scheduling_policy schedule_policy rope_scaling rope_scaling_type cudagraph_mode "
        "compilation_config.cudagraph_mode split_mode numa model_impl moe_a2a_backend "
        "speculative_config.method speculative_algorithm float32_matmul_precision "
        "generation_config",
    ),
    (
        SWITCH,
        "enforce_eager enable_prefix_caching enable_chunked_prefill disable_custom_all_reduce "
        "disable_cascade_attn async_scheduling disable_radix_cache disable_cuda_graph "
        "enable_torch_compile torch_compile enable_deterministic_inference "
        "disable_overlap_schedule enable_dp_attention enable_mixed_chunk enable_nan_detection "
        "enable_tp_cpu_affinity flash_attn flash_attention fa cont_batching cache_prompt "
        "kv_unified swa_full no_mmap mlock kv_offload op_offload warmup enable_expert_parallel "
        "enable_eplb enable_lora use_v2_block_manager calculate_kv_scales "
        "disable_sliding_window multi_step_stream_outputs trust_remote_code skip_tokenizer_init "
        "bfloat16 batch_invariant jinja use_cache do_sample compile deterministic embeddings "
        "reasoning fp16 bf16 triton_attention_reduce_in_fp32 disable_hybrid_kv_cache_manager "
        "disable_chunked_prefix_cache enable_sleep_mode",
    ),
    (
        NUMBER,
        "seed random_seed max_model_len max_num_seqs max_num_batched_tokens block_size "
        "page_size tensor_parallel_size pipeline_parallel_size data_parallel_size tp_size "
        "dp_size pp_size ep_size gpu_memory_utilization mem_fraction_static swap_space "
        "cpu_offload_gb kv_cache_memory_bytes num_gpu_blocks num_gpu_blocks_override "
        "max_seq_len_to_capture max_logprobs long_prefill_token_threshold "
        "max_num_partial_prefills max_long_partial_prefills num_scheduler_steps "
        "decode_context_parallel_size max_running_requests max_total_tokens "
        "chunked_prefill_size max_prefill_tokens context_length cuda_graph_max_bs "
        "torch_compile_max_bs num_continuous_decode_steps triton_attention_num_kv_splits "
        "triton_attention_split_tile_size schedule_conservativeness stream_interval n_ctx "
        "ctx_size n_batch batch_size n_ubatch ubatch_size n_parallel parallel n_gpu_layers "
        "gpu_layers n_threads threads n_threads_batch threads_batch main_gpu rope_freq_base "
        "rope_freq_scale rope_theta yarn_ext_factor yarn_attn_factor yarn_beta_fast "
        "yarn_beta_slow temperature top_p top_k min_p repeat_penalty repetition_penalty "
        "frequency_penalty presence_penalty max_tokens max_batch_size num_beams "
        "compilation_config.level compilation_config.mode "
        "speculative_config.num_speculative_tokens speculative_num_steps "
        "speculative_num_draft_tokens speculative_eagle_topk max_lora_rank api_server_count "
        "total_slots n_predict keep max_position_embeddings num_hidden_layers",
    ),
)
"""Rows of shape, in any case of letters, and names."""
FLAGS: Mapping[str, str] = {name: shape for shape, names in TABLE for name in names.split()}
LARGEST_FILE_BYTES = 4 << 20


def select_flags(settings: Mapping[str, object]) -> EngineFlags:
    """Keep the settings that are on the list, by normalized name; count the others."""
    flat = dict(flatten(settings))
    values = {name: select(FLAGS[name], value) for name, value in flat.items() if name in FLAGS}
    return EngineFlags(values=dict(sorted(values.items())), num_left_out=len(flat) - len(values))


def flatten(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Give the settings with dots between the names of inner ones."""
    for name, value in settings.items():
        full = prefix + str(name).lstrip("-").replace("-", "_").lower()
        if isinstance(value, Mapping):
            yield from flatten(value, f"{full}.")
        else:
            yield full, value


def select(shape: str, value: object) -> str:
    """Spell a value of the shape; a mark for any other."""
    # Shapes know no case, and JSON's true is True to Python.
    text = str(value).lower()
    return text if re.fullmatch(shape, text, re.IGNORECASE | re.ASCII) else HIDDEN


def read_flags(parts: Iterable[str]) -> EngineFlags | None:
    """Read settings from the command line: KEY=VALUE, or a JSON file; None if there are none.

    Raises:
        ConfigError: One is neither; nothing of a value is repeated.
    """
    settings: dict[str, Any] = {}
    given = list(parts)
    for part in given:
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[\w.-]{1,80}", name, re.ASCII):
            settings[name] = value
        else:
            settings |= read_settings(Path(part))
    return select_flags(settings) if given else None


def read_settings(file: Path) -> dict[str, Any]:
    """Read a file of settings.

    Raises:
        ConfigError: There is none, or it is no JSON object.
    """
    refusal = ConfigError(
        expected="engine flags as KEY=VALUE, or a file that holds a JSON object",
        found="something else",
    )
    try:
        if not file.is_file() or file.stat().st_size > LARGEST_FILE_BYTES:
            raise refusal
        value = parse_json(file.read_bytes())
    except (OSError, RecordCorrupt) as error:
        raise refusal from error
    if not isinstance(value, dict):
        raise refusal
    return value
