"""The model-based inputs of rapid evaluation as the API's documentation lists them."""

from __future__ import annotations

TEXT = ("prediction", "instruction", "context")
POINTWISE: dict[str, tuple[tuple[str, ...], int, int]] = {
    "fluency": (("prediction",), 1, 5),
    "coherence": (("prediction",), 1, 5),
    "safety": (("prediction",), 0, 1),
    "groundedness": (("prediction", "context"), 0, 1),
    "fulfillment": (("prediction", "instruction"), 1, 5),
    "summarization_quality": (TEXT, 1, 5),
    "summarization_helpfulness": (TEXT, 1, 5),
    "summarization_verbosity": (TEXT, -2, 2),
    "question_answering_quality": (TEXT, 1, 5),
    "question_answering_relevance": (TEXT, 1, 5),
    "question_answering_helpfulness": (TEXT, 1, 5),
    "question_answering_correctness": (TEXT, 0, 1),
}
"""Instance fields, lowest and highest score of each pointwise input."""
PAIRWISE = ("pairwise_summarization_quality", "pairwise_question_answering_quality")
"""The inputs that choose between two answers; their fields are `PAIR`."""
PAIR = ("prediction", "baseline_prediction", "instruction", "context")
REFERABLE = tuple(name for name, (fields, _, _) in POINTWISE.items() if fields == TEXT) + PAIRWISE
"""Those whose `metric_spec` may ask for the reference to be shown (`use_reference`)."""
