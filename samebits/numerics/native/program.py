"""A decoder's walk through its layers, recorded once and then run by one call into C.

A decode step has some 300 operations of a few microseconds each; called one by one from Python,
the calls cost as much as the work. The recorder is handed to the decoder's own code
in place of an arithmetic, so the walk is written once. The same C functions run either way.
"""

from collections.abc import Sequence
from ctypes import Array, Structure, addressof
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from samebits.numerics.arithmetic import Walk
from samebits.numerics.native.structs import (
    COp,
    address_of,
    make_c_cache,
    make_c_norms,
    make_c_shape,
    make_c_weight,
    table_addresses,
)
from samebits.numerics.reference import check_gate
from samebits.numerics.values import AttentionShape, HeadNorms, LayerCache, RopeTable, Rows, Weight

F32 = NDArray[np.float32]


class Kind(IntEnum):
    """samebits.h, sb_kind."""

    LINEAR = 0
    NORM = 1
    ROPE = 2
    ATTENTION = 3
    GATE = 4
    ADD = 5


@dataclass(frozen=True, slots=True)
class Slot:
    """The result of one recorded operation, not yet computed."""

    index: int
    width: int
    """Floats a row."""


class Op(NamedTuple):
    """One recorded operation."""

    kind: Kind
    inputs: tuple[Slot, ...]
    output: Slot
    fields: dict[str, Any]
    """Further fields of COp."""


class Recorder:
    """The operations of an arithmetic, noted down instead of computed."""

    def __init__(self, width: int) -> None:
        self.x = Slot(0, width)
        self.ops: list[Op] = []
        self.kept: list[Any] = []
        """What the addresses in the operations point to."""

    def note(self, kind: Kind, width: int, *inputs: Slot, **fields: Any) -> Slot:
        """Note one operation; its result has `width` floats a row."""
        output = Slot(len(self.ops) + 1, width)
        self.ops.append(Op(kind, inputs, output, fields))
        return output

    def keep(self, structure: Structure, value: Any) -> int:
        """Keep a structure and the value whose arrays it points to; give its address."""
        self.kept += (structure, value)
        return addressof(structure)

    def linear(self, x: Slot, weight: Weight, residual: Slot | None = None) -> Slot:
        """Note a linear."""
        inputs = (x,) if residual is None else (x, residual)
        address = self.keep(make_c_weight(weight), weight)
        return self.note(Kind.LINEAR, weight.num_outputs, *inputs, weight=address)

    def rms_norm(self, x: Slot, weight: F32, eps: float) -> Slot:
        """Note a norm."""
        self.kept.append(weight)
        address = address_of(weight, np.float32, (x.width,), "a norm weight")
        return self.note(Kind.NORM, x.width, x, norm=address, eps=eps)

    def rope_append(
        self,
        qkv: Slot,
        shape: AttentionShape,
        norms: HeadNorms | None,
        table: RopeTable,
        rows: Rows,
        cache: LayerCache,
    ) -> Slot:
        """Note the rotation and the writing of keys and values."""
        self.kept.append(table)
        cos, sin = table_addresses(table, shape.head_dim)
        c_norms = None if norms is None else make_c_norms(norms, shape.head_dim)
        return self.note(
            Kind.ROPE,
            shape.num_heads * shape.head_dim,
            qkv,
            shape=self.keep(make_c_shape(shape), shape),
            head_norms=None if c_norms is None else self.keep(c_norms, norms),
            cos=cos,
            sin=sin,
            cache=self.keep(make_c_cache(cache, shape), cache),
        )

    def attention(self, q: Slot, shape: AttentionShape, rows: Rows, cache: LayerCache) -> Slot:
        """Note an attention."""
        return self.note(
            Kind.ATTENTION,
            q.width,
            q,
            shape=self.keep(make_c_shape(shape), shape),
            cache=self.keep(make_c_cache(cache, shape), cache),
        )

    def gate(self, gu: Slot, activation: str) -> Slot:
        """Note a gate."""
        check_gate(gu.width, activation)
        return self.note(Kind.GATE, gu.width // 2, gu, gelu=activation == "gelu_tanh")

    def add(self, x: Slot, y: Slot) -> Slot:
        """Note an addition."""
        return self.note(Kind.ADD, x.width, x, y)


def assign_buffers(ops: Sequence[Op]) -> list[int]:
    """Give each slot a buffer, used again once nobody reads it; slot 0 has buffer 0 to itself."""
    last_use = {slot.index: i for i, op in enumerate(ops) for slot in op.inputs}
    buffers, free, count = [0], list[int](), 1
    for i, op in enumerate(ops):
        if not free:
            free.append(count)
            count += 1
        buffers.append(free.pop())
        free += [buffers[s] for s in {t.index for t in op.inputs} if s and last_use[s] == i]
    return buffers


class Program(NamedTuple):
    """A recorded walk, ready for sb_run."""

    ops: Array[COp]
    num_buffers: int
    max_width: int
    kept: list[Any]
    names: list[str]


def record(walk: Walk, width: int, rows: Rows, cache: Sequence[LayerCache]) -> Program:
    """Record a walk over activations `width` wide."""
    recorder = Recorder(width)
    walk(recorder, recorder.x, rows, cache)
    buffers = assign_buffers(recorder.ops)
    ops = (COp * len(recorder.ops))()
    for c_op, op in zip(ops, recorder.ops, strict=True):
        c_op.kind = op.kind
        c_op.input = buffers[op.inputs[0].index]
        c_op.other = buffers[op.inputs[1].index] if len(op.inputs) > 1 else -1
        c_op.output = buffers[op.output.index]
        c_op.width = op.output.width
        for name, value in op.fields.items():
            setattr(c_op, name, value)
    return Program(
        ops=ops,
        num_buffers=max(buffers) + 1,
        max_width=max(op.output.width for op in recorder.ops),
        kept=recorder.kept,
        names=[op.kind.name.lower() for op in recorder.ops],
    )
