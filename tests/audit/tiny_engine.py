"""The tiny model of the engine's tests, as an audit's session in this process."""

from dataclasses import dataclass
from functools import cache

from samebits.audit.condition import Call, Condition, Process
from samebits.audit.observation import Answer
from samebits.audit.prompts import AuditPrompt
from samebits.audit.target import Ask
from samebits.audit.targets.engine import EngineSettings
from samebits.audit.targets.engine_session import EngineSession
from samebits.engine import Engine
from samebits.model.template import ChatTemplate
from samebits.numerics.select import select_arithmetic
from tests.engine.tiny import make_decoder, make_engine

CLOCK_TEMPLATE = (
    "{{ strftime_now('%d %b %Y') }}: {% for m in messages %}{{ m.content }}{% endfor %}"
)
PROMPTS = (
    AuditPrompt(id="short", text="x="),
    AuditPrompt(id="middle", text="The sea is"),
    AuditPrompt(
        id="long", text="A prompt that goes on until it has more rows than a tile of BLAS."
    ),
)
COMPANIONS = (
    AuditPrompt(id="c1", text="Something else is said here"),
    AuditPrompt(id="c2", text="and here"),
)


@dataclass(frozen=True)
class Load:
    """Loads the tiny model for a process."""

    arithmetic: str
    has_template: bool = False

    def __call__(self, process: Process) -> Engine:
        chosen = select_arithmetic(
            process.dtype or self.arithmetic,
            threads=process.threads or 1,
            kernels="portable" if process.isa == "portable" else "auto",
        )
        engine = make_engine(make_decoder(chosen))
        engine.template = ChatTemplate(CLOCK_TEMPLATE) if self.has_template else None
        return engine


@cache
def open_tiny(arithmetic: str, *, has_template: bool = False) -> EngineSession:
    """Open a session; it has no state that a test could change."""
    load = Load(arithmetic, has_template)
    settings = EngineSettings(model="tiny", arithmetic=arithmetic, ignore_eos=True)
    return EngineSession(load(Process()), settings=settings, load=load)


def make_ask(call: Call, prompts: tuple[AuditPrompt, ...] = PROMPTS, max_tokens: int = 6) -> Ask:
    """Ask prompts once."""
    return Ask(call=call, prompts=prompts, max_tokens=max_tokens, block="b", companions=COMPANIONS)


def ask(session: EngineSession, call: Call) -> list[Answer]:
    """Answer the three prompts."""
    return list(session.ask(make_ask(call)))


def of_call(call: Call) -> Condition:
    """Make a condition of the base process."""
    return Condition(call=call)
