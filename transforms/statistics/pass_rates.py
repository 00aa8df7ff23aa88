"""How likely it is that k trials of an instance pass, all of them (pass^k) or at least one (pass@k)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb

from .criteria import Threshold


@dataclass(frozen=True, slots=True)
class PassRate:
    """What a row of the summary says of k trials of an instance.

    Attributes:
        metric: Output name of the metric that scores the trials.
        k: Number of trials, at least 1.
        every: Whether all of them have to pass (pass^k), or at least one (pass@k).
        threshold: What the score of a trial must meet to pass.
    """

    metric: str
    k: int
    every: bool
    threshold: Threshold

    @property
    def name(self) -> str:
        """The name of the metric in the summary: `<metric>/pass^k` or `<metric>/pass@k`."""
        return f"{self.metric}/pass{'^' if self.every else '@'}{self.k}"

    def of(self, trials: int, passed: int) -> float | None:
        """Returns the unbiased estimate for an instance; `None` for less than k trials.

        It is the share of all choices of k among its trials that pass: C(passed, k) / C(trials, k), or
        1 - C(trials - passed, k) / C(trials, k), correctly rounded.

        Source: Yao and others (2024), tau-bench, section 3; Chen and others (2021), Evaluating large language models
        trained on code, section 2.1.
        """
        return None if trials < self.k else _share(trials, passed, self.k, self.every)


@lru_cache(maxsize=65536)
def _share(trials: int, passed: int, k: int, every: bool) -> float:
    choices = comb(trials, k)
    return comb(passed, k) / choices if every else (choices - comb(trials - passed, k)) / choices
