"""Makes text from a record harmless to look at: nothing invisible, nothing endless.

Prompts and answers are hostile input. Characters that would move the cursor, reorder the line or
vanish are spelled out; the rest is left to the escaping of each output format.
"""

import unicodedata

ARROWS = {"\n": "↵", "\t": "⇥"}
"""Signs for the controls that prompts are full of; others are given by their code."""
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories that show nothing by themselves."""
ID_CHARACTERS = 40
TEXT_CHARACTERS = 160


def show(text: str, limit: int = TEXT_CHARACTERS) -> str:
    """Spell a text on one line with every character visible, cut after `limit` characters."""
    head = "".join(map(show_character, text[:limit]))
    return f"{head}… (+{len(text) - limit:,})" if len(text) > limit else head


def show_id(text: str) -> str:
    """Spell the id of a prompt, or another name."""
    return show(text, ID_CHARACTERS)


def show_character(character: str) -> str:
    """Give a sign, or the code, of a character that cannot be seen."""
    if character.isascii() and character.isprintable():
        return character
    if character in ARROWS:
        return ARROWS[character]
    if unicodedata.category(character) in HIDDEN:
        return f"[U+{ord(character):04X}]"
    return character
