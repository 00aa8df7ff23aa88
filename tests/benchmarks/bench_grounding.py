"""Time of one lexical check of grounding at the API's limits: 4,096 tokens, 200 facts of 10,000 characters.

    python tests/benchmarks/bench_grounding.py [rounds]

Words are drawn from a vocabulary as frequent as English words are (Zipf), so that claims share words with many facts;
a fifth of the claims are sentences of the facts. Three lengths of sentences are taken, because a check costs by claim;
the figures are the best round's milliseconds of CPU time, and beside it, a usual check: 5 claims, 10 facts of 1,000
characters. The service promises an answer within 500 ms.
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from evalbeam import check_grounding

VOCABULARY = 20_000


class Writer:
    """Writes sentences of words by Zipf's law, with names, numbers and function words among them."""

    def __init__(self) -> None:
        self.rng = random.Random(1)
        made = {
            "".join(self.rng.choices("abcdefghijklmnoprstuvw", k=self.rng.randint(3, 9))) for _ in range(VOCABULARY)
        }
        self.words = ["the", "of", "in", "was", "and", "not", *sorted(made)]
        self.words[20::17] = [word.capitalize() for word in self.words[20::17]]
        self.words[30::23] = [str(1000 + i) for i in range(len(self.words[30::23]))]
        self.weights = [1 / (i + 2) for i in range(len(self.words))]

    def sentence(self, length: int) -> str:
        return "It " + " ".join(self.rng.choices(self.words, self.weights, k=length - 1)) + "."

    def text(self, characters: int) -> str:
        found = ""
        while len(found) < characters:
            found += self.sentence(20) + " "
        return found[:characters]


def request(tokens: int, length: int, facts: int, characters: int) -> dict[str, Any]:
    """A request of sentences of `length` words."""
    writer = Writer()
    texts = [writer.text(characters) for _ in range(facts)]
    sentences, used = [], 0
    while used + length + 1 <= tokens:
        known = writer.rng.random() < 0.2
        words = writer.rng.choice(texts).split(". ")[1].split()[:length] if known else []
        sentence = " ".join(words).rstrip(".") + "." if len(words) > 2 else writer.sentence(length)
        sentences.append(sentence)
        used += len(sentence.split()) + 1
    return {"answerCandidate": " ".join(sentences), "facts": [{"factText": text} for text in texts]}


def main() -> None:
    """Prints milliseconds of each case."""
    cases = {f"limits, sentences of {n} words": request(4096, n, 200, 10_000) for n in (7, 20, 40)}
    cases["5 claims, 10 facts of 1,000 characters"] = request(105, 20, 10, 1_000)
    for name, body in cases.items():
        spent = []
        for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 5):
            began = time.process_time()
            response = check_grounding(body)
            spent.append((time.process_time() - began) * 1000)
        print(f"{name:42}{len(response['claims']):5} claims{spent[0]:8.1f} ms first{min(spent):8.1f} ms best")


if __name__ == "__main__":
    main()
