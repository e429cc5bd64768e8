"""Demo records written by hand."""

from samebits.audit.demo_record import Cell, Change, DemoRecord, Flip, Speed, Subject

CHANGES = (
    Change(key="batch 8", label="batch 8", base="alone"),
    Change(key="ISA avx2", label="ISA avx2", base="batch 8"),
)
SPEED = Speed(prefill_tokens_s=100.4, decode_tokens_s=20.0, batched_tokens_s=90.0)
DIGEST = "sha256:" + "ab" * 32
FLIP = Flip(
    change="batch 8",
    prompt="The sea\nis",
    before=" blue and " + "wide " * 60,
    after=" green [bold]not markup[/bold]",
    token=2,
)


def make_cell(change: str, logits: int = 0, outputs: int = 0, token: int | None = None) -> Cell:
    return Cell(
        change=change,
        num_outputs=16,
        num_logits_differ=logits,
        first_logits=0 if logits else None,
        num_outputs_differ=outputs,
        first_token=token,
        not_tested=None,
    )


def make_untested(change: str, reason: str) -> Cell:
    return Cell(
        change=change,
        num_outputs=0,
        num_logits_differ=0,
        first_logits=None,
        num_outputs_differ=0,
        first_token=None,
        not_tested=reason,
    )


def make_subject(name: str, *cells: Cell, flip: Flip | None = None) -> Subject:
    return Subject(
        arithmetic=name,
        kernels="numpy",
        level=None,
        cells=cells,
        logits_digest=DIGEST,
        weights_digest=DIGEST,
        flip=flip,
        speed=SPEED,
    )


def make_record() -> DemoRecord:
    no_level = "NumPy's BLAS picks its own level"
    return DemoRecord(
        version="0.1",
        model="smollm2",
        prompts=("a", "b"),
        max_tokens=16,
        threads=2,
        changes=CHANGES,
        subjects=(
            make_subject(
                "plain-bf16",
                make_cell("batch 8", 16, 5, 2),
                make_untested("ISA avx2", no_level),
                flip=FLIP,
            ),
            make_subject(
                "plain-f32", make_cell("batch 8", 16), make_untested("ISA avx2", no_level)
            ),
            make_subject("sb1", make_cell("batch 8"), make_cell("ISA avx2")),
        ),
        wall_s=125.0,
    )
