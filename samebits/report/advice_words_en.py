"""The words of advice in English. advice_words_zh.py has the same keys."""

ADVICE_EN = {
    "advice.title": "Advice for {target}",
    "advice.choice": "What to use",
    "advice.here.shown": "Cheapest remedy that keeps {need} the same in any company: {rung}. At "
    "most {bound} of prompts may still differ (95 %), which meets the rate of {rate}.",
    "advice.here.unshown": "Cheapest remedy with no difference of {need} in any company: {rung}. "
    "{num} prompts rule out only a share above {bound}; for the rate of {rate} it takes {needed} "
    "without a difference.",
    "advice.here.none": "No remedy that was tried kept {need} the same in any company.",
    "advice.anywhere.shown": "Under other threads and instruction sets besides: {rung} (at most "
    "{bound}).",
    "advice.anywhere.unshown": "Under other threads and instruction sets besides: {rung} (a share "
    "above {bound} is ruled out).",
    "advice.anywhere.none": "None of them kept {need} the same under other threads and "
    "instruction sets, too.",
    "advice.incomplete": "This run stopped early: not all remedies were tried. --resume goes on.",
    "advice.cache": "A cache is not among the choices: it repeats the first answer, whatever "
    "company that had.",
    "advice.differs": "What still differs",
    "advice.differs.caption": "Prompts whose answer was not the one they got alone",
    "advice.differs.figure": "Share of prompts whose tokens changed in company, with the 95 % "
    "interval",
    "advice.differs.figure.what": "One row a remedy. A filled point is the share of prompts that "
    "differ, the line its 95 % confidence interval. A hollow point is zero, with its upper bound.",
    "advice.differs.unit": "share of prompts",
    "advice.remedy": "Remedy",
    "advice.company-tokens": "In company: tokens",
    "advice.company-bits": "In company: bits",
    "advice.elsewhere-tokens": "Elsewhere: tokens",
    "advice.elsewhere-bits": "Elsewhere: bits",
    "advice.others": "Other answers",
    "advice.how": "In company: {batches} requests at once, of different lengths, in two orders, "
    "and alone again. Elsewhere: other threads, a lower instruction set; the remedy “{pinned}” "
    "fixes both. Other answers: prompts that, alone, get other tokens than without a remedy; that "
    "is the price of changing the arithmetic, not instability.",
    "advice.costs": "What it costs",
    "advice.costs.caption": "Costs in this run",
    "advice.speed": "Tokens/s, {size} at once",
    "advice.ratio": "Of nothing",
    "advice.latency": "s/token, alone",
    "advice.memory": "Memory",
    "advice.start": "Start",
    "advice.costs.how": "One remedy after another on one machine; what else ran beside is in the "
    "figures. Time of a token includes reading the prompt. Replays of the cache are as fast as "
    "they are; its first answers cost what they cost without it.",
    "advice.why": "Why it holds, and what was in force",
    "advice.why.caption": "Remedies",
    "advice.basis": "Why it holds",
    "advice.in-force": "In force",
    "advice.not-tried": "not tried: {reason}",
    "advice.missing": "{n} answers are missing",
    "advice.nothing": "nothing",
    "advice.setup": "What was tried",
    "advice.setup.prompts": "Prompts",
    "advice.setup.tokens": "Tokens for each",
    "advice.setup.record": "Digest of the record",
    "advice.setup.processor": "Processor",
    "advice.setup.command": "Run it again",
    "advice.seconds": "{n} s",
    "advice.megabytes": "{n} MB",
    "rung.nothing": "no remedy at all",
    "rung.seeds": "seeds",
    "rung.environment": "fixed environment and flags",
    "rung.isolation": "isolation",
    "rung.fixed-shape": "fixed shape",
    "rung.float32": "float32",
    "rung.float64": "float64",
    "rung.guard-lowest": "guard, lowest id",
    "rung.guard-priority": "guard, priority list",
    "rung.guard-alone": "guard, recompute alone",
    "rung.guard-precise": "guard, recompute in float32",
    "rung.guard-sb1": "guard, ask sb1",
    "rung.cache": "cache",
    "rung.sb1": "our engine, sb1",
    "basis.NONE": "nothing holds it",
    "basis.MEASURED": "measured only",
    "basis.ALONE": "nothing is computed beside it",
    "basis.CHECKED": "one shape for all, checked at the start",
    "basis.REPLAYED": "the first answer is kept, whatever it was",
    "basis.INTEGERS": "sums of integers have no order",
}
