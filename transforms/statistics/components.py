"""Where the variance of a mean comes from (rows, trials, votes), and what a run of some size can show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .intervals import detectable_errors


@dataclass(frozen=True, slots=True)
class Components:
    """Variance components of a score.

    Attributes:
        rows: Number of rows with a score.
        trials: Mean number of trials with a score.
        votes: Votes of a judge behind a score; 1 if there is none.
        row: Variance of the rows' own means.
        trial: Variance of the trials of a row; `None` if rows have one trial, whose variance is then part of `row`.
        vote: Variance of a single vote; `None` if it is not known.
    """

    rows: int
    trials: float
    votes: int
    row: float
    trial: float | None
    vote: float | None

    @property
    def by_vote(self) -> float:
        """The part of the variance of a trial that the votes add; a majority is taken to vary as a mean does."""
        return (self.vote or 0.0) / self.votes

    @property
    def within(self) -> float | None:
        """The variance that the mean of a row's trials has by trials and votes; `None` if rows have one trial."""
        return None if self.trial is None else (self.trial + self.by_vote) / self.trials

    @property
    def whole(self) -> float:
        """The variance of the mean of a row's trials."""
        return self.row + (self.within or 0.0) + (self.by_vote if self.trial is None else 0.0)

    def gain_deviation(self, paired: bool) -> float | None:
        """Returns the standard deviation of the gain of a row between two runs of this kind.

        Args:
            paired: Both runs have the same rows, and the agent's answers are as good: only trials and votes differ.
        """
        variance = self.within if paired else self.whole
        return None if variance is None else math.sqrt(2 * variance)


def estimate_components(
    scores: Sequence[Sequence[float]], votes: int = 1, vote_variance: float | None = None
) -> Components | None:
    """Estimates variance components from the trials of each row; `None` for less than two rows.

    The estimates are those of an analysis of variance, which for the same number of trials of each row are REML's;
    a negative one counts as 0.

    Args:
        scores: The scores of each row's trials, at least one each.
        votes: Votes behind a score.
        vote_variance: Variance of a single vote, if it is known.

    Source: Searle, Casella and McCulloch (1992), Variance components, chapter 3.
    """
    if len(scores) < 2:
        return None
    sizes = np.array([len(one) for one in scores], float)
    means = np.array([math.fsum(one) / len(one) for one in scores])
    rows, total = len(scores), float(sizes.sum())
    grand = float((sizes * means).sum() / total)
    between = float((sizes * (means - grand) ** 2).sum()) / (rows - 1)
    by_vote = (vote_variance or 0.0) / votes
    if total == rows:
        return Components(rows, 1.0, votes, max(between - by_vote, 0.0), None, vote_variance)
    inner = math.fsum((x - m) ** 2 for one, m in zip(scores, means.tolist(), strict=True) for x in one)
    within = inner / (total - rows)
    size = (total - float((sizes**2).sum()) / total) / (rows - 1)
    row = max((between - within) / size, 0.0)
    return Components(rows, total / rows, votes, row, max(within - by_vote, 0.0), vote_variance)


def disagreement(agreeing_share: float, votes: int) -> float | None:
    """Returns an unbiased estimate of the variance of one vote of yes or no, from a panel that stops when decided.

    A panel stops as soon as one side has the majority of `votes`, so the share of agreeing votes alone is too high. The
    variance is half the probability that the first two votes differ, and how often they do among all orders that end
    like this one is known (Rao and Blackwell).

    Args:
        agreeing_share: Share of the counted votes that agree with the verdict.
        votes: Votes of the whole panel, odd and at least 3; else `None` is returned.
    """
    if votes < 3 or votes % 2 == 0 or not 0 < agreeing_share <= 1:
        return None
    agreeing = (votes + 1) // 2
    counted = round(agreeing / agreeing_share)
    if not agreeing <= counted <= votes or abs(agreeing / counted - agreeing_share) > 1e-9:
        return None  # some votes failed
    return (counted - agreeing) * (agreeing - 1) / ((counted - 1) * (counted - 2)) if counted > 2 else 0.0


def detectable(deviation: float, rows: int, alpha: float) -> float:
    """Returns the smallest mean gain that is shown with a probability of 80 %.

    Args:
        deviation: Standard deviation of the gain of a row.
        rows: Number of rows.
        alpha: Two-sided level of the test.
    """
    return detectable_errors(alpha) * deviation / math.sqrt(rows)


def rows_needed(deviation: float, margin: float, alpha: float) -> int:
    """Returns the rows that show a gain of `margin`, or exclude a loss of it, with a probability of 80 %."""
    return max(math.ceil((detectable_errors(alpha) * deviation / margin) ** 2), 2)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in one currency: of a row itself, of a call of the agent, and of a vote of a judge."""

    row: float = 0.0
    call: float = 0.0
    vote: float = 0.0


def purchases(found: Components, prices: Prices) -> dict[str, float]:
    """Returns by how many per cent the variance of the mean falls for 1 % more money, by what the money buys.

    It is the ratio of two elasticities: of the variance and of the cost. Rows always have 1; others have more if what
    they make less of is a large part of the variance, or a small part of the cost. What cannot be known is left out.
    """
    trial = prices.call + found.votes * prices.vote
    cost = prices.row + found.trials * trial
    bought = {"rows": 1.0}
    if not cost or not found.whole:
        return bought
    if found.within is not None and trial:
        bought["trials"] = found.within / found.whole / (found.trials * trial / cost)
    if found.vote is not None and prices.vote:
        part = found.by_vote / found.trials / found.whole
        bought["votes"] = part / (found.trials * found.votes * prices.vote / cost)
    return bought
