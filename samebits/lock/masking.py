"""Takes out of a text what tells of a user: home folders, and secrets of addresses."""

import re

USER = re.compile(r"(?<![\w@])([a-z][a-z0-9+.-]*://)[^\s/@]*@", re.IGNORECASE)
QUERY = re.compile(r"([a-z][a-z0-9+.-]*://[^\s?#]*)[?#]\S*", re.IGNORECASE)
PORT = re.compile(
    r"([a-z][a-z0-9+.-]*://(?:\[[^\]\s]*\]|[^\s/:@\[]*)):(?!\d+(?:[/\s'\"]|$))[^\s/]+",
    re.IGNORECASE,
)
"""A port that is no number: the password of an address whose end was left out."""
HOME = re.compile(r"(/home|/Users|/root)(/[^/\s:'\"]+)?(?=[/\s:'\"]|$)")


def mask(text: str) -> str:
    """Mask users, passwords, queries and fragments of addresses, and names of home folders."""
    text = QUERY.sub(r"\1?(not shown)", USER.sub(r"\1(not shown)@", text))
    text = PORT.sub(r"\1:(not shown)", text)
    return HOME.sub(lambda found: "~" if found[1] != "/root" else f"~{found[2] or ''}", text)
