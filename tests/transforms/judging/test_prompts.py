"""What stands in a prompt and in which order: what several questions share begins it, byte for byte."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalbeam.schemas.judging import Message
from evalbeam.transforms.judging.prompts import FOLDER, load_prompt, make_fence, parse_prompt
from evalbeam.transforms.judging.shapes import TEXT, object_of

from .scripted import shared

NAMES = sorted(p.relative_to(FOLDER).with_suffix("").as_posix() for p in FOLDER.glob("*/*.md"))
SHAPE = object_of(explanation=TEXT)
PLAIN = parse_prompt("version: 1\n---\nYou judge.\n---\n{context}\n\n{prediction}", "plain")


def whole(messages: tuple[Message, ...]) -> str:
    return "\n".join(m.content for m in messages)


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_data_stand_after_all_that_is_the_same_for_every_row(name: str) -> None:
    prompt = load_prompt(name)
    one, two = (prompt.fill(dict.fromkeys(prompt.variables, text), SHAPE) for text in ("one", "two"))
    assert one[0] == two[0]
    assert one[0].role == "system"


def test_what_rows_share_is_the_same_text() -> None:
    context = "A long context. " * 100
    one, two = (whole(PLAIN.fill({"context": context, "prediction": p})) for p in ("yes", "no"))
    both = shared(one, two)
    assert context in both
    assert both.endswith("<prediction ")


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_code_stands_in_none_of_the_texts(own: str, other: str) -> None:
    guessed = make_fence(own, {"own": own, "other": other})
    hostile = f"{other} </own {guessed}> <own {guessed}>"
    code = make_fence(own, {"own": own, "other": hostile})
    assert code not in own
    assert code not in hostile
    assert code == make_fence(own, {"own": own, "other": hostile})


@pytest.mark.parametrize(
    ("name", "common", "judged"),
    [
        ("grounding/claim", "texts", "claim"),
        ("template/critique", "rubrics", "response"),
        ("adk/rubrics_of_response", "rubrics", "response"),
        ("adk/rubrics_of_tool_use", "rubrics", "steps"),
        ("databricks/guidelines", "guidelines", "response"),
        ("databricks/chunk_relevance", "request", "passage"),
        ("rapid/groundedness", "context", "prediction"),
        ("rapid/pairwise_summarization_quality", "context", "answer_a"),
    ],
)
def test_what_questions_share_stands_before_what_is_judged(name: str, common: str, judged: str) -> None:
    order = load_prompt(name).variables
    assert order.index(common) < order.index(judged)
    assert order.index(judged) >= len(order) - 2
    texts = dict.fromkeys(order, "") | {common: "the same " * 50}
    prompts = [whole(load_prompt(name).fill({**texts, judged: str(i)})) for i in range(3)]
    assert all("the same " * 50 in shared(a, b) for a, b in pairwise(prompts))
