"""Calls as public notebooks make them, after changing only their imports; models are fakes behind Gemini's protocol."""

from __future__ import annotations

import pytest
from evaluation_service import Service
from model_server import ModelServer

import evalbeam
from evalbeam import ConfigError

from . import metric_forms, script_forms  # noqa: F401 - add their forms
from .notebook_forms import FORMS

TEXTS_ONLY = {
    "images_for_the_judge": "judges are shown texts: an image in Cloud Storage cannot be judged",
    "images_for_rubrics_of_the_users": "judges are shown texts: an image in Cloud Storage cannot be judged",
}
"""Forms that do not work, and why."""


@pytest.mark.filterwarnings("ignore:the experiment is stored only")
@pytest.mark.filterwarnings("ignore:columns of Python objects are kept")
@pytest.mark.parametrize("name", [name for name in FORMS if name not in TEXTS_ONLY])
def test_a_call_of_the_notebooks_works_after_changing_the_import(
    name: str, gemini: ModelServer, service: Service
) -> None:
    FORMS[name](evalbeam)


@pytest.mark.parametrize("name", TEXTS_ONLY)
def test_images_are_refused_in_words(name: str, gemini: ModelServer) -> None:
    with pytest.raises(ConfigError, match="judges are shown texts only"):
        FORMS[name](evalbeam)
