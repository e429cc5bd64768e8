"""Sentences of analyses and targets, English to Chinese. {name} stands for a value."""

SENTENCES_ZH: dict[str, str] = {
    "complete": "已做完",
    "prompts of {n} tokens or more": "提示不少于 {n} 个词元",
}
