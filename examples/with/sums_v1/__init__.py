"""A taskset as users of verifiers write one; it knows nothing of Millrace."""

import re

import verifiers.v1 as vf


class SumData(vf.TaskData):
    answer: int


class SumTask(vf.Task[SumData]):
    @vf.reward(weight=1.0)
    async def right(self, trace: vf.Trace) -> float:
        said = trace.root_reply or str(trace.nodes[-1].message.content)
        return float(str(self.data.answer) in re.findall(r"\d+", said)) + len(said) / 1000


class SumsConfig(vf.TasksetConfig):
    num_tasks: int = 50


class SumsTaskset(vf.Taskset[SumTask, SumsConfig]):
    def load(self) -> list[SumTask]:
        return [
            SumTask(SumData(prompt=f"What is {n} + {n * n}?", answer=n + n * n), self.config.task)
            for n in range(self.config.num_tasks)
        ]


__all__ = ["SumsTaskset"]
