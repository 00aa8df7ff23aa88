"""The forms in which the fixtures of google-adk, its samples and adk-samples write eval sets, with texts of our own.

Each form is named after what is special about it. All keys are written as there, also those without a value.
"""

from __future__ import annotations

from typing import Any

Json = Any
_OLDER_KEYS = (
    "video_metadata",
    "thought",
    "inline_data",
    "code_execution_result",
    "executable_code",
    "file_data",
    "function_call",
    "function_response",
)


def says(text: str | None, role: str | None = "model", *more: str) -> dict[str, Json]:
    """A message as google-adk 1 wrote it: with all keys of a part, most of them null."""
    return {"parts": [{**dict.fromkeys((*_OLDER_KEYS, *more)), "text": text}], "role": role}


def asks(text: str, **keys: Json) -> dict[str, Json]:
    """A message as people write it."""
    return {"parts": [{"text": text}], **keys}


def uses(name: str, /, **args: Json) -> dict[str, Json]:
    """A call as google-adk 1 wrote it."""
    return {"id": None, "args": args, "name": name}


def event(author: str, role: str, **part: Json) -> dict[str, Json]:
    """An event of a turn."""
    return {"author": author, "content": {"parts": [part], "role": role}}


def turn(prompt: dict[str, Json], reply: dict[str, Json] | None = None, **more: Json) -> dict[str, Json]:
    """A turn."""
    return {"user_content": prompt, **({} if reply is None else {"final_response": reply}), **more}


def rubric(name: str, text: str, **more: Json) -> dict[str, Json]:
    """A property required of an answer."""
    return {"rubric_id": name, **more, "rubric_content": {"text_property": text}}


USER: dict[str, Json] = {"app_name": "app", "user_id": "eval_user", "state": {}}
_SIGNED = {**says("Three lakes are listed: Como, Garda, Iseo.", None, "thought_signature")}
_SIGNED["parts"][0]["thought_signature"] = "CqsCAdHtim-ZZuTPQdEgbCYXWniB28PuU35grogIwz7a2X0PG9eopQ=="
_LIGHTS = "tests/integration/lights/switch.test.json"

CASES: dict[str, list[dict[str, Json]]] = {
    "all keys, null if empty": [
        {
            "eval_id": _LIGHTS,
            "conversation": [
                turn(
                    says("Switch lamp_4 in the attic off.", "user"),
                    says("lamp_4 in the attic is off now."),
                    invocation_id="b1c0",
                    intermediate_data={
                        "tool_uses": [uses("set_lamp", room="attic", lamp="lamp_4", state="OFF")],
                        "intermediate_responses": [],
                    },
                    creation_timestamp=1747337309.25,
                ),
                turn(
                    says("Which order did I give just now?", "user"),
                    says("You told me to switch lamp_4 off.\n"),
                    invocation_id="b1c1",
                    intermediate_data={"tool_uses": [], "intermediate_responses": []},
                    creation_timestamp=1747337310.5,
                ),
            ],
            "session_input": None,
            "creation_timestamp": 1747337309.26,
        }
    ],
    "signatures of thoughts, no role": [
        {
            "eval_id": "lakes exploration",
            "conversation": [
                turn(
                    says("Which lakes do you know?", "user", "thought_signature"),
                    _SIGNED,
                    intermediate_data={
                        "tool_uses": [{"id": "adk-4d52", "args": {"limit": 3}, "name": "list_lakes"}],
                        "tool_responses": [],
                        "intermediate_responses": [],
                    },
                )
            ],
        }
    ],
    "texts of sub-agents, a session with a state": [
        {
            "eval_id": "/elsewhere/samples/before.test.json",
            "conversation": [
                turn(
                    says("transfer to packing", "user"),
                    says("You leave Bern for Oslo on 3 May."),
                    intermediate_data={
                        "tool_uses": [uses("transfer_to_agent", agent_name="packing"), uses("weather", place="Oslo")],
                        "intermediate_responses": [
                            ["packing", [says("**Visa:** none is needed.")["parts"][0]]],
                            ["packing", [says("**Storms:** unknown.")["parts"][0]]],
                        ],
                    },
                )
            ],
            "session_input": {
                "app_name": "trips",
                "user_id": "",
                "state": {"profile": {"seat": "window", "likes": []}, "days": [{"day": 1, "events": []}], "origin": ""},
            },
        }
    ],
    "an answer without text": [
        {
            "eval_id": "elicit",
            "conversation": [
                turn(
                    asks("Book a ferry to Bergen", role="user"),
                    {"parts": [{"text": None}], "role": "model"},
                    intermediate_data={
                        "tool_uses": [uses("ask_for", missing=["day", "name"], prompt="Which day, and whose name?")],
                        "intermediate_responses": [],
                    },
                ),
                turn(
                    asks("Ida, on 2 June", role="user"),
                    asks("The ferry to Bergen is booked for Ida on 2 June.", role="model"),
                    intermediate_data={"tool_uses": [uses("book", to="Bergen", day="2 June", name="Ida")]},
                ),
            ],
        }
    ],
    "calls alone": [
        {
            "eval_id": f"{kind} wages",
            "conversation": [
                turn(asks(f"Pay the {kind} wages.", role="user"), intermediate_data={"tool_uses": first}),
                turn(
                    asks("confirm", role="user"),
                    intermediate_data={"tool_uses": [{"name": f"pay_{kind}", "args": {"decimals": 6, "sums": sums}}]},
                ),
            ],
            "session_input": USER,
        }
        for kind, first, sums in (
            ("equal", [{"name": "look_up", "args": {"coin": "X"}}], ["0.05"]),
            ("unequal", [], ["0.05", "0.02"]),
        )
    ],
    "prompts alone": [
        {
            "eval_id": "spending",
            "conversation": [turn(asks("What did I spend?")), turn(asks("and on shoes?"))],
            "session_input": USER,
        }
    ],
    "calls without arguments": [
        {
            "eval_id": "poster",
            "session_input": USER,
            "conversation": [
                turn(
                    asks("A goat on a meadow"),
                    {"role": "model", "parts": [{"text": "The prompts will be revised."}]},
                    invocation_id="1",
                    intermediate_data={"tool_uses": [{"name": "search"}, {"name": "policy"}, {"name": "search"}]},
                )
            ],
        }
    ],
    "events, or no steps at all": [
        {
            "eval_id": "workflow",
            "conversation": [
                turn(
                    asks("Hi there", role="user"),
                    asks("Hello, ask me about grids.", role="model"),
                    intermediate_data={},
                ),
                turn(
                    asks("Forecast the demand", role="user"),
                    asks("The demand will be 81 MWh.", role="model"),
                    intermediate_data={
                        "invocation_events": [
                            event("grid", "model", text="I ask a colleague."),
                            event(
                                "grid", "model", function_call={"id": "a-1", "args": {"days": 3}, "name": "forecast"}
                            ),
                            event(
                                "grid",
                                "user",
                                function_response={"id": "a-1", "name": "forecast", "response": {"result": "81 MWh"}},
                            ),
                        ]
                    },
                ),
                turn(
                    asks("And the trends?", role="user"),
                    intermediate_data={
                        "invocation_events": [
                            event(
                                "grid", "model", function_call={"id": "a-2", "args": {"q": "trends"}, "name": "pulse"}
                            )
                        ]
                    },
                ),
            ],
        }
    ],
    "rubrics of turns": [
        {
            "eval_id": "capture",
            "conversation": [
                turn(
                    asks("Save these steps."),
                    intermediate_data={
                        "tool_uses": [{"name": "write", "args": {"path": "notes.md"}}],
                        "tool_responses": [],
                    },
                    rubrics=[
                        rubric("written", "The answer writes a file."),
                        rubric("honest", "Nothing is invented.", type="FINAL_RESPONSE_QUALITY"),
                    ],
                )
            ],
            "session_input": {
                **USER,
                "state": {"grants": [{"tool": "bash", "signature": {"command": "ls"}}], "pending": True},
            },
        }
    ],
    "a role of another vendor": [
        {
            "eval_id": "claims/adjudicate",
            "conversation": [
                turn(
                    asks("Adjudicate claim 7", role="user"),
                    asks("Claim 7 was processed.", role="assistant"),
                    intermediate_data={"tool_uses": [], "intermediate_responses": []},
                )
            ],
            "session_input": USER,
        }
    ],
}
"""Cases of EvalSets by form."""
OLDER: dict[str, Json] = {
    "turns.test.json": [
        {
            "query": "Switch lamp_2 off.",
            "expected_tool_use": [{"tool_name": "set_lamp", "tool_input": {"lamp": "lamp_2", "state": "OFF"}}],
            "reference": "lamp_2 is off.",
        },
        {"query": "who are you", "expected_tool_use": [], "reference": "a lamp assistant"},
    ],
    "named.evalset.json": [
        {
            "name": "twice",
            "data": [
                {
                    "query": "Roll twice",
                    "expected_tool_use": [{"tool_name": "roll", "tool_input": {"sides": 17}}] * 2,
                    "expected_intermediate_agent_responses": [{"author": "dice", "text": "rolling"}],
                    "reference": "It was 13, then 4.\n",
                }
            ],
            "initial_session": {"state": {"rolls": []}, "app_name": "dice", "user_id": "user"},
        },
        {"name": "no session", "data": [{"query": "What can you do?", "reference": "Roll."}], "initial_session": {}},
    ],
}
"""Files of the older formats."""
SCENARIOS: list[dict[str, Json]] = [
    {
        "eval_id": "CS-1",
        "conversation_scenario": {"starting_prompt": "Hello", "conversation_plan": "Ask for a lamp"},
        "session_input": None,
    },
    {
        "eval_id": "novice",
        "conversation_scenario": {
            "starting_prompt": "I want light.",
            "conversation_plan": "Name the room only if asked.",
            "user_persona": "NOVICE",
        },
        "session_input": {"app_name": "lamps", "user_id": "user"},
    },
]
"""Cases with a simulated user."""
REFUSED: dict[str, Json] = {
    "calls of a turn outside of its steps": {
        "eval_set_id": "s",
        "eval_cases": [{"eval_id": "c", "conversation": [turn(asks("x"), asks("y"), expected_tool_use=[])]}],
    },
    "test_cases of an own form": {
        "name": "s",
        "version": "1.0",
        "test_cases": [{"id": "a", "input": "x", "expected_output": {"contains": ["y"], "tool_calls": []}}],
    },
    "an index of another file": {"eval_set_id": "s", "metrics": [], "test_file": "x.test.json", "categories": {}},
    "a recorded session": {"events": [{"author": "user", "content": asks("x", role="user"), "id": "e-1"}]},
    "a data set of Vertex AI": {
        "eval_cases": [
            {"eval_case_id": "a", "prompt": asks("x", role="user"), "rubric_groups": {"g": {"group_id": "g"}}}
        ]
    },
}
"""Files beside them that google-adk refuses too."""
_JUDGE = {"judge_model": "gemini-2.5-flash", "num_samples": 5}
CONFIGS: dict[str, Json] = {
    "numbers": {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5}},
    "low": {"criteria": {"tool_trajectory_avg_score": 0.0, "response_match_score": 0.1}},
    "between": {"criteria": {"tool_trajectory_avg_score": 0.65, "response_match_score": 0.5}},
    "response alone": {"criteria": {"response_match_score": 0.5}},
    "exact": {
        "criteria": {
            "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "EXACT"},
            "response_match_score": 0.6,
        }
    },
    "in order": {
        "criteria": {
            "tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "IN_ORDER"},
            "response_match_score": 0.6,
        }
    },
    "custom": {
        "criteria": {"as_many_calls": 1.0},
        "custom_metrics": {
            "as_many_calls": {"code_config": {"name": "form_metrics.as_many_calls"}, "description": "As many calls."}
        },
    },
    "settings of others": {
        "criteria": {"tool_trajectory_avg_score": 0.9, "response_match_score": 0.8},
        "evaluation_settings": {"num_runs": 3, "enable_parallel": True},
        "use_live": True,
    },
}
"""Contents of test_config.json and eval_config.json whose criteria are computed."""
JUDGED_CONFIGS: dict[str, Json] = {
    "match by a judge": {
        "criteria": {"final_response_match_v2": {"threshold": 0.8, "judge_model_options": _JUDGE}},
    },
    "rubrics": {
        "criteria": {
            "rubric_based_final_response_quality_v1": {
                "threshold": 0.8,
                "judge_model_options": _JUDGE,
                "rubrics": [rubric("concise", "The answer is short.")],
            },
            "rubric_based_tool_use_quality_v1": {
                "threshold": 1.0,
                "judge_model_options": _JUDGE,
                "rubrics": [rubric("filter", "The call names the room.")],
            },
        }
    },
    "camel case": {
        "criteria": {
            "rubric_based_final_response_quality_v1": {
                "threshold": 0.8,
                "includeIntermediateResponsesInFinal": True,
                "judgeModelOptions": {"judgeModel": "gemini-2.5-flash", "numSamples": 1},
                "rubrics": [{"rubricId": "relevance", "rubricContent": {"textProperty": "It answers the question."}}],
            }
        }
    },
    "simulated users": {
        "criteria": {
            "hallucinations_v1": {
                "threshold": 0.8,
                "judge_model_options": {"judge_model": "gemini-2.5-flash"},
                "evaluate_intermediate_nl_responses": True,
            },
            "per_turn_user_simulator_quality_v1": {"threshold": 0.8, "judge_model_options": _JUDGE},
        },
        "user_simulator_config": {"type": "llm_backed", "model": "gemini-2.5-flash", "max_allowed_invocations": 8},
    },
    "no type of simulator": {
        "criteria": {"hallucinations_v1": {"threshold": 0.8}},
        "user_simulator_config": {"model": "gemini-2.5-flash", "max_allowed_invocations": 10},
    },
    "safety beside numbers": {
        "criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5, "safety_v1": 0.8}
    },
}
"""Contents whose criteria need a judge."""
