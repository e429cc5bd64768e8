"""Which tensors a config needs, and of which shape; a vector is one row.

Knows no files: both formats are checked against this one list.
"""

from collections.abc import Mapping

from samebits.errors import ModelFileError
from samebits.model.config import ModelConfig
from samebits.model.tensor import RowSource

ShapeOf = dict[str, tuple[int, int]]


def layer_shapes(config: ModelConfig) -> ShapeOf:
    """List the tensors of one layer by canonical name, with (N, K)."""
    width, ffn = config.width, config.ffn_width
    q_rows = config.num_heads * config.head_dim
    kv_rows = config.num_kv_heads * config.head_dim
    shapes: ShapeOf = {
        "attn_norm": (1, width),
        "q": (q_rows, width),
        "k": (kv_rows, width),
        "v": (kv_rows, width),
        "o": (width, q_rows),
        "ffn_norm": (1, width),
        "gate": (ffn, width),
        "up": (ffn, width),
        "down": (width, ffn),
    }
    if config.attention_bias:
        shapes |= {"q_bias": (1, q_rows), "k_bias": (1, kv_rows), "v_bias": (1, kv_rows)}
    if config.qk_norm:
        shapes |= {"q_norm": (1, config.head_dim), "k_norm": (1, config.head_dim)}
    if config.post_norms:
        shapes |= {"attn_post_norm": (1, width), "ffn_post_norm": (1, width)}
    return shapes


def top_shapes(config: ModelConfig) -> ShapeOf:
    """List the tensors outside the layers by canonical name, with (N, K)."""
    shapes: ShapeOf = {"embed": (config.vocab_size, config.width), "norm": (1, config.width)}
    if not config.tied_head:
        shapes["head"] = (config.vocab_size, config.width)
    return shapes


def match_tensors(
    wanted: Mapping[str, tuple[str, tuple[int, int]]],
    found: Mapping[str, RowSource],
    where: str,
) -> dict[str, RowSource]:
    """Give the tensors of a file their canonical names.

    Args:
        wanted: Canonical name -> name in the file and shape.
        found: By name in the file; every one must be wanted.
        where: The file, for errors.

    Raises:
        ModelFileError: A tensor is missing, not expected, or of another shape; names it.
    """
    matched: dict[str, RowSource] = {}
    for name, (file_name, shape) in wanted.items():
        if file_name not in found:
            raise ModelFileError(
                expected=f"tensor {file_name!r} in {where}", found="no such tensor"
            )
        source = found[file_name]
        if source.shape != shape:
            raise ModelFileError(
                expected=f"tensor {file_name!r} of shape {shape} in {where}",
                found=str(source.shape),
            )
        matched[name] = source
    surplus = found.keys() - {file_name for file_name, _ in wanted.values()}
    if surplus:
        raise ModelFileError(
            expected=f"only tensors that the config needs in {where}",
            found=f"{min(surplus)!r} and {len(surplus) - 1} more",
            remedy="The config does not belong to these weights, or something is not implemented.",
        )
    return matched
