"""Union of longest common subsequences, the heart of ROUGE-Lsum, exactly as rouge-score 0.1.2 takes it.

For each line of the reference rouge-score aligns it with each line of the response, takes the union of the reference
positions the alignments use, and counts the union's tokens, each at most as often as the response has it. Which of
several longest alignments is taken decides the union, so its way through the table must be followed exactly: from the
end, take two equal tokens; else step back in the response if the table says that loses nothing and stepping back in
the reference would, else in the reference.

Bit-parallel form: D(j) has bit i where the table of the first j response tokens grows at reference token i
(H. Hyyro, "Bit-parallel LCS-length computation revisited", 2004), M(j) where that token equals response token j. The
way back is then one step for each j: of the bits of M(j) | D(j) at or below the present one take the highest; if it
is in M(j), the token is used and the next search starts below it, else at it.

Reference tokens the response does not have never set a bit and are left out. Response tokens the reference does not
have still move the way back to a bit of D, but several in a row do so only once: each run becomes one `None`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence

Line = Sequence[Hashable]
Columns = Sequence[Hashable | None]

STORED_BYTES = 1 << 25
"""Bytes of stored bit vectors above which a line is processed in blocks, each computed twice, to bound memory."""


def union_hits(candidate: Sequence[Line], reference: Sequence[Line]) -> int:
    """Computes the clipped size of the union for one pair of texts, given as lines of tokens."""
    counts: Counter[Hashable] = Counter()
    for line in candidate:
        counts.update(line)
    times = Counter(tuple(token for token in line if token in counts) for line in reference)
    times.pop((), None)
    plan = _Reference(times)
    union = 0
    for columns in dict.fromkeys(_columns(line, plan.places) for line in candidate):
        if columns and union != plan.inside:
            union |= plan.aligned(columns)
    used: Counter[Hashable] = Counter()
    for token, weight in plan.at(union):
        used[token] += weight
    return (used & counts).total()


def _columns(line: Line, known: dict[Hashable, list[int]]) -> Columns:
    """Replaces each run of unknown tokens by one `None`; leading ones are dropped, since they have no effect."""
    columns: list[Hashable | None] = []
    for token in line:
        if token in known:
            columns.append(token)
        elif columns and columns[-1] is not None:
            columns.append(None)
    return tuple(columns)


class _Reference:
    """The distinct lines of a reference in one big integer, with a guard bit above each that stops carries."""

    def __init__(self, times: Mapping[tuple[Hashable, ...], int]) -> None:
        self.places: dict[Hashable, list[int]] = {}
        self._tokens: list[Hashable] = []
        self._weights: list[int] = []
        for line, weight in times.items():
            for place, token in enumerate(line, len(self._tokens)):
                self.places.setdefault(token, []).append(place)
            self._tokens += (*line, None)
            self._weights += [weight] * len(line) + [0]
        self.inside = _number("1" if weight else "0" for weight in self._weights)
        self._steps = self._smear_steps(times)
        self._masks: dict[Hashable, int] = {}
        self._room = STORED_BYTES // (len(self._tokens) // 8 + 1)

    @staticmethod
    def _smear_steps(lines: Collection[Line]) -> list[tuple[int, int]]:
        """Returns (distance, mask of bits with a bit at this distance above them in their line) for 1, 2, 4 ..."""
        longest, steps, distance = max(map(len, lines), default=0), [], 1
        while distance < longest:
            texts = ("1" * max(len(x) - distance, 0) + "0" * (min(distance, len(x)) + 1) for x in lines)
            steps.append((distance, _number(texts)))
            distance *= 2
        return steps

    def at(self, bits: int) -> Iterator[tuple[Hashable, int]]:
        """Yields the token at each set bit, and how often its line occurs."""
        text = bin(bits)[:1:-1]
        place = text.find("1")
        while place >= 0:
            yield self._tokens[place], self._weights[place]
            place = text.find("1", place + 1)

    def aligned(self, columns: Columns) -> int:
        """Returns the bits of the reference tokens that alignments with one response line use, over all lines."""
        block = len(columns)
        if block > self._room:
            block = max(int(block**0.5), 1)
        starts, grown = [], self.inside
        for begin in range(0, len(columns), block):
            starts.append(grown)
            if begin + block < len(columns):
                grown = self._forward(columns[begin : begin + block], grown)[-1]
        found, below = 0, self.inside
        for number in reversed(range(len(starts))):
            part = columns[number * block : (number + 1) * block]
            hits, below = self._backward(part, self._forward(part, starts[number]), below)
            found |= hits
            if not below:
                break
        return found

    def _forward(self, columns: Columns, state: int) -> list[int]:
        """Returns the state after each column: the complement of D, without guard bits."""
        states, inside = [], self.inside
        for token in columns:
            if token is not None:
                match = state & self._mask(token)
                state = ((state + match) | (state - match)) & inside
            states.append(state)
        return states

    def _backward(self, columns: Columns, states: list[int], below: int) -> tuple[int, int]:
        """Returns the bits used when tracing back through the columns, and the bits at or below the current ones."""
        found = 0
        for token, state in zip(reversed(columns), reversed(states), strict=True):
            mask = 0 if token is None else self._mask(token)
            reached = below = self._smeared((mask | (state ^ self.inside)) & below)
            if mask:
                hits = (reached ^ self._one_down(reached)) & mask
                found |= hits
                below ^= hits
            if not below:
                break
        return found, below

    def _smeared(self, bits: int) -> int:
        """Sets every bit at or below the highest set bit of its line."""
        for distance, mask in self._steps:
            bits |= (bits >> distance) & mask
        return bits

    def _one_down(self, bits: int) -> int:
        return (bits >> 1) & self._steps[0][1] if self._steps else 0

    def _mask(self, token: Hashable) -> int:
        mask = self._masks.get(token)
        if mask is None:
            packed = bytearray(len(self._tokens) // 8 + 1)
            for place in self.places[token]:
                packed[place >> 3] |= 1 << (place & 7)
            mask = int.from_bytes(packed, "little")
            if len(self._masks) < self._room:
                self._masks[token] = mask
        return mask


def _number(bits: Iterator[str]) -> int:
    """Returns the integer with these bits, lowest first."""
    return int("".join(bits)[::-1] or "0", 2)
