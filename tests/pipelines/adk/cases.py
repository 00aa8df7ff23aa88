"""Eval cases of a dice agent, as google-adk writes them."""

import json


def turn(prompt, reply=None, calls=()):
    """A turn; without a reply no response is expected."""
    found = {"user_content": {"role": "user", "parts": [{"text": prompt}]}}
    if reply is not None:
        found["final_response"] = {"role": "model", "parts": [{"text": reply}]}
    return {**found, "intermediate_data": {"tool_uses": [{"name": n, "args": a} for n, a in calls]}}


def roll(number, count=1, **wrong):
    """A turn that the dice agent meets, except for what is `wrong`."""
    said = {"reply": f"It is {10 * number + count}.", "calls": [("roll", {"sides": number})], **wrong}
    return turn(f"roll {number}", **said)


def case(name, *turns, **more):
    """A case."""
    return {"eval_id": name, "conversation": list(turns), **more}


def eval_set(path, *cases, name="dice"):
    """Writes an EvalSet and returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"eval_set_id": name, "eval_cases": cases}))
    return str(path)


def statuses(evaluation):
    """The verdicts by eval_id."""
    return {c.eval_id: c.status for c in evaluation.cases}
