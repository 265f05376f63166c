"""`with uncollected:` Python's search for cyclic garbage waits.

Reading many subscriptions makes objects by the hundred thousand, none of them garbage. Each time
their number has grown by a quarter, the collector goes through all objects of the process: that
took a third of the time in which 20,000 attributes were added.
"""

from __future__ import annotations

import gc
import os

from tamis.critical_section import atomic


class _Uncollected:
    """Sections may overlap, in whatever threads: the last one to end switches the collector on
    again, if it was on before the first."""

    def __init__(self) -> None:
        self._open, self._was_on = 0, False
        os.register_at_fork(after_in_child=self._after_fork)

    def __enter__(self) -> None:
        try:
            with atomic():  # where Ctrl-C came meanwhile, it is raised at the end of this
                if self._open == 0:
                    self._was_on = gc.isenabled()
                    gc.disable()
                self._open += 1
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        with atomic():
            self._open = max(0, self._open - 1)  # a child may be born in a section
            if self._open == 0 and self._was_on:
                gc.enable()

    def _after_fork(self) -> None:
        """Sections of other threads do not end in a child."""
        if self._open > 0 and self._was_on:
            gc.enable()
        self._open = 0


uncollected = _Uncollected()
