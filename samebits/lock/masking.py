"""Takes out of a text what tells of a user: home folders, and secrets of addresses."""

import re

MARK = "(not-shown)"
"""Has no space, so that a masked address is still one word."""
SCHEME = r"([a-z][a-z0-9+.-]*://"
USER = re.compile(rf"(?<![\w@]){SCHEME})[^\s/@]*@", re.IGNORECASE)
QUERY = re.compile(rf"{SCHEME}[^\s?#]*)[?#]\S*", re.IGNORECASE)
PORT = re.compile(
    rf"{SCHEME}(?:\[[^\]\s]*\]|[^\s/:@\[]*)):(?!\d+(?:[/\s'\",;:)]|\.?$|\.\s))[^\s/]+",
    re.IGNORECASE,
)
"""A port that is no number: the password of an address whose end was left out."""
HOME = re.compile(r"(/home|/Users|/root)(/[^/\s:'\"]+)?(?=[/\s:'\"]|$)")


def mask(text: str) -> str:
    """Mask users, passwords, queries and fragments of addresses, and names of home folders."""
    text = USER.sub(rf"\1{MARK}@", QUERY.sub(rf"\1?{MARK}", text))
    text = PORT.sub(rf"\1:{MARK}", text)
    return HOME.sub(lambda found: "~" if found[1] != "/root" else f"~{found[2] or ''}", text)
