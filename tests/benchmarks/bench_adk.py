"""A scripted ADK agent (two model calls and a tool) on an eval set: evalbeam beside ADK's own eval service.

python tests/benchmarks/bench_adk.py [cases] [seconds of latency of each model call]

Each runs in a process of its own, one after the other, on the same file; both score the tool trajectory and the
response and report the four figures. Checked: every case passes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "transforms" / "agents"))
PARALLELISM = 4  # what `adk eval` has, and cannot change


def write_cases(path: str, count: int) -> None:
    """An eval set that the dice agent meets in every case."""
    cases = []
    for i in range(count):
        call = {"name": "roll", "args": {"sides": i}}
        invocation = {
            "user_content": {"role": "user", "parts": [{"text": f"roll {i}"}]},
            "final_response": {"role": "model", "parts": [{"text": f"It is {10 * i + 1}."}]},
            "intermediate_data": {"tool_uses": [call]},
        }
        cases.append({"eval_id": f"c{i}", "conversation": [invocation]})
    Path(path).write_text(json.dumps({"eval_set_id": "dice", "eval_cases": cases}))


def ours(path: str, latency: float) -> int:
    """Cases that pass here."""
    import adk_agents

    from evalbeam.pipelines.adk.evaluate import adk_evaluate, write_results

    agent = adk_agents.dice_agent(latency, thinks=False)
    found = adk_evaluate(agent, [path], agent_options={"max_in_flight": 64})
    write_results(found, tempfile.mkdtemp(), "dice")
    return sum(case.status == "PASSED" for case in found.cases)


def theirs(path: str, latency: float) -> int:
    """Cases that pass in ADK's eval service."""
    warnings.simplefilter("ignore")
    import adk_agents
    from google.adk.evaluation import base_eval_service as service
    from google.adk.evaluation.eval_config import EvalConfig, get_eval_metrics_from_config
    from google.adk.evaluation.eval_set import EvalSet
    from google.adk.evaluation.in_memory_eval_sets_manager import InMemoryEvalSetsManager
    from google.adk.evaluation.local_eval_service import LocalEvalService
    from google.adk.evaluation.local_eval_set_results_manager import LocalEvalSetResultsManager

    manager = InMemoryEvalSetsManager()
    manager.create_eval_set("dice", "dice")
    for case in EvalSet.model_validate_json(Path(path).read_text()).eval_cases:
        manager.add_eval_case("dice", "dice", case)
    results = LocalEvalSetResultsManager(agents_dir=tempfile.mkdtemp())
    agent = adk_agents.dice_agent(latency, thinks=False)
    local = LocalEvalService(agent, manager, eval_set_results_manager=results)
    metrics = get_eval_metrics_from_config(
        EvalConfig(criteria={"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8})
    )

    async def run() -> int:
        asked = service.InferenceConfig(parallelism=PARALLELISM)
        request = service.InferenceRequest(app_name="dice", eval_set_id="dice", inference_config=asked)
        inferred = [r async for r in local.perform_inference(request)]
        judging = service.EvaluateConfig(eval_metrics=metrics, parallelism=PARALLELISM)
        judge = service.EvaluateRequest(inference_results=inferred, evaluate_config=judging)
        return sum([r.final_eval_status.name == "PASSED" async for r in local.evaluate(judge)])

    return asyncio.run(run())


def main() -> None:
    """Runs both, each in a process of its own."""
    if len(sys.argv) > 3:
        start = time.perf_counter()
        passed = {"ours": ours, "theirs": theirs}[sys.argv[1]](sys.argv[2], float(sys.argv[3]))
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu, wall = used.ru_utime + used.ru_stime, time.perf_counter() - start
        print(json.dumps({"passed": passed, "wall": wall, "cpu": cpu, "rss": used.ru_maxrss / 1024}))
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    latency = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/dice.evalset.json"
        write_cases(path, count)
        for side in ("ours", "theirs"):
            command = [sys.executable, __file__, side, path, str(latency)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            assert found["passed"] == count, found
            rate, cpu = count / found["wall"], 1000 * found["cpu"] / count
            print(
                f"{side:7} {count} cases at {latency:g} s: {found['wall']:6.1f} s, {rate:6.1f} cases/s, "
                f"{cpu:5.1f} ms CPU a case, {found['rss']:4.0f} MB, load {os.getloadavg()[0]:.1f}"
            )


if __name__ == "__main__":
    main()
