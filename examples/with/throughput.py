"""Games of 10 ms steps, against the engines alone and through a run: what `SPEED=1 make with PEER=throughput` prints.

Turns a second of the same loop with the same slots, their ratio, and the processor time of each process. The engines
are simulated in real time. SLOTS (64), GAMES (10 a slot) and TOKENS of a call (32) are in the environment.
"""

import asyncio
import os
import subprocess
import time

import stand
from millrace.env import Agent, Agents, Answer, Scenario, environment
from millrace.env.wire import Wire, encoded

TURNS, TOKENS = 10, int(os.environ.get("TOKENS", "32"))


@environment
async def steps(scenario: Scenario, agents: Agents) -> float:
    for turn in range(TURNS):
        await agents.only.ask(f"Game {scenario.seed % 1000}, turn {turn}, say more: ", max_tokens=TOKENS)
        await asyncio.sleep(0.010)
    return float(scenario.seed % 7)


async def alone(slots: int, games: int) -> float:
    """Turns a second against the engines themselves."""
    wire, engines = Wire(), os.environ["MILLRACE_ENGINES"].split()
    left = iter(range(games))

    async def slot(engine: str) -> None:
        async def call(agent: Agent, body: dict) -> Answer:
            body = {**body, "seed": 0, "temperature": 1.0, "logprobs": 0, "return_token_ids": True}
            answer = (await wire.post(engine + "/v1/completions", encoded(body), None, 60)).json()
            return Answer(answer["choices"][0]["text"])

        for game in left:
            await steps.play(Scenario(game), Agents([Agent("agent", call, model=stand.MODEL)]))

    began = time.monotonic()
    await asyncio.gather(*(slot(engines[n % len(engines)]) for n in range(slots)))
    wire.close()
    return games * TURNS / (time.monotonic() - began)


def processor_seconds(program: int) -> dict[str, int]:
    """Of the service's processes and of the program, by what they are; "dev" is Redis."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,cputimes,args"], capture_output=True, text=True, check=True).stdout
    took: dict[str, int] = {}
    for line in listed.splitlines()[1:]:
        pid, parent, seconds, args = line.split(None, 3)
        if os.environ["MILLRACE_DEV"] in (pid, parent) or int(pid) == program:
            name = "millrace-env" if int(pid) == program else "temporal" if "temporal" in args.split()[0] else args.split()[1]
            took[name] = took.get(name, 0) + int(seconds)
    return took


def through(slots: int, games: int) -> float:
    """Turns a second through a run that always has games open, between its 1st and its last claim."""
    groups = slots // 4
    count = games // slots
    run = stand.start("steps", steps=count + 1, samples=4, groups=groups, max_tokens=TOKENS)
    process, _ = stand.serve("throughput:steps", "steps", slots)
    began, turns, before = 0.0, 0, {}
    for step in run.steps():
        with step:
            turns += sum(len(t["turns"]) for g in step.batch["groups"] for t in g["trajectories"]) if began else 0
            if not began:
                began, before = time.monotonic(), processor_seconds(process.pid)
    rate = turns / (time.monotonic() - began)
    took = processor_seconds(process.pid)
    costs = ", ".join(f"{name} {1000 * (took[name] - before[name]) / turns:.1f}" for name in sorted(took) if name in before)
    print(f"processor time a turn, ms: {costs}")
    process.wait(60)
    return rate


if __name__ == "__main__":
    slots = int(os.environ.get("SLOTS", "64"))
    games = int(os.environ.get("GAMES", 10 * slots))
    direct = asyncio.run(alone(slots, games))
    print(f"{slots} slots against the engines alone: {direct:.0f} turns/s")
    played = through(slots, games)
    print(f"{slots} slots through a run: {played:.0f} turns/s, {100 * played / direct:.0f} % of that; load {os.getloadavg()[0]:.1f}")
