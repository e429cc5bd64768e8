"""A seed is called ignored only if noise does not explain its failures as well."""

from dataclasses import replace

from scipy.stats import fisher_exact

from samebits.audit.axes import BASE, Contrast, with_call
from samebits.audit.blocks import index_observations
from samebits.audit.condition import Condition
from samebits.audit.evidence import gather
from samebits.audit.judge import judge_contrasts
from samebits.audit.observation import Answer
from samebits.audit.results import Outcome, Verdict
from samebits.audit.seeds import Repeats, count_greedy, hold_against
from samebits.audit.statistics import fisher_p
from tests.audit.seen import REPEAT, Give, audit, batch, say

SAMPLED = with_call(BASE, temperature=1.0, seed="42")
SEED = Contrast(
    axis="seed",
    level="43",
    base=SAMPLED,
    treated=replace(SAMPLED, call=replace(SAMPLED.call, seed="43")),
)
CONTRASTS = (REPEAT, batch(2), batch(8), SEED)


def give_odd(*odd: tuple[str, int]) -> Give:
    """Answer alike but for the second of the calls of a (seed, prompt)."""

    def give(condition: Condition, prompt: int, _round: int, repeat: int) -> Answer:
        return say(prompt + 100 * ((condition.call.seed, prompt) in odd and repeat == 1))

    return give


def verdict_of(give: Give) -> Verdict:
    return judge_contrasts(CONTRASTS, audit(CONTRASTS, give), look=2)[-1].result.verdict


def test_one_stray_call_among_many_is_no_ignored_seed() -> None:
    assert verdict_of(give_odd(("42", 3))) is Verdict.CANNOT_TELL


def test_a_seed_that_never_repeats_is_ignored_though_nothing_else_differs() -> None:
    odd = [("42", prompt) for prompt in range(16)]
    assert verdict_of(give_odd(*odd)) is Verdict.CHANGES_TOKENS


def test_without_greedy_repeats_one_failure_counts() -> None:
    seen = audit((SEED,), give_odd(("43", 0)))
    (found,) = judge_contrasts((SEED,), seen, look=0)
    assert found.result.verdict is Verdict.CHANGES_TOKENS
    assert hold_against(Repeats(0, 16), Repeats(0, 0)) == 1.0


def test_a_condition_shared_by_contrasts_is_counted_once() -> None:
    index = index_observations(audit(CONTRASTS, give_odd()))
    evidence = [gather(contrast, index) for contrast in CONTRASTS]
    assert count_greedy(evidence, Outcome.TOKENS) == Repeats(0, 3 * 16)


def test_the_p_value_is_fishers() -> None:
    for num, of, other_num, other_of in (
        (1, 20, 0, 300),
        (5, 16, 3, 90),
        (0, 4, 2, 9),
        (7, 7, 0, 1),
    ):
        table = [[num, of - num], [other_num, other_of - other_num]]
        expected = fisher_exact(table, alternative="greater").pvalue
        assert abs(fisher_p(num, of, other_num, other_of) - expected) < 1e-12
