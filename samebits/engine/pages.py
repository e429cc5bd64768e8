"""Which pages of the key-value cache are in use, and by how many sequences.

Knows no tokens and no arrays: pages are numbers. A page may be held several times, because the
samples of one request share the full pages of their prompt; it is free again when nobody holds it.
"""

import heapq
from collections.abc import Sequence

from samebits.errors import InvariantBroken


class Pages:
    """Hand out pages, lowest number first, and count who holds them.

    Attributes:
        num_pages: Pages in the pool, numbered from 0.
    """

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.free = list(range(num_pages))
        self.holders = [0] * num_pages

    @property
    def num_free(self) -> int:
        """Pages nobody holds."""
        return len(self.free)

    def take(self, count: int) -> list[int]:
        """Hold `count` free pages, the lowest.

        Raises:
            InvariantBroken: There are not so many; the scheduler promises never to ask.
        """
        if count > len(self.free):
            raise InvariantBroken(expected=f"{count} free pages", found=str(len(self.free)))
        taken = [heapq.heappop(self.free) for _ in range(count)]
        for page in taken:
            self.holders[page] = 1
        return taken

    def share(self, pages: Sequence[int]) -> list[int]:
        """Hold pages once more that somebody holds already."""
        for page in pages:
            if not self.holders[page]:
                raise InvariantBroken(expected=f"page {page} in use", found="a free page")
            self.holders[page] += 1
        return list(pages)

    def give_back(self, pages: Sequence[int]) -> None:
        """Hold pages once less; free those nobody holds any more."""
        for page in pages:
            if not self.holders[page]:
                raise InvariantBroken(expected=f"page {page} in use", found="a free page")
            self.holders[page] -= 1
            if not self.holders[page]:
                heapq.heappush(self.free, page)

    def check_integrity(self, held: Sequence[Sequence[int]]) -> None:
        """Compare the counts with the pages that sequences say they hold.

        Raises:
            InvariantBroken: A page is leaked, freed while in use, or free twice.
        """
        counts = [0] * self.num_pages
        for pages in held:
            for page in pages:
                counts[page] += 1
        unheld = [page for page, count in enumerate(counts) if not count]
        if counts != self.holders or sorted(self.free) != unheld:
            raise InvariantBroken(
                expected=f"{len(unheld)} free pages and the rest held as counted",
                found=f"{len(self.free)} free pages, or other counts",
            )
