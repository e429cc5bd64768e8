"""The thread count of NumPy's BLAS, really in force.

BLAS has one count for the whole process. Two arithmetics with different counts may live in it, so
each puts its own in force before it multiplies, and says what the library then reports.
"""

from threadpoolctl import (  # type: ignore[import-untyped]
    LibController,
    ThreadpoolController,
)


class BlasThreads:
    """Hold a wanted thread count and put it in force."""

    def __init__(self, threads: int) -> None:
        self.wanted = threads
        self.libraries: list[LibController] = (
            ThreadpoolController().select(user_api="blas").lib_controllers
        )

    def apply(self) -> int:
        """Put the count in force; return the smallest that a BLAS now reports (1 if none)."""
        in_force = [self.wanted] if self.libraries else [1]
        for library in self.libraries:
            if library.get_num_threads() != self.wanted:
                library.set_num_threads(self.wanted)
            in_force.append(library.get_num_threads())
        return min(in_force)
