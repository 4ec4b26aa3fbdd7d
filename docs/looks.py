"""Draw the picture of where networks look, from a finished ``omegamax demo``: ``docs/looks.py [DEMO]``."""

import sys
from pathlib import Path

from omegamax import viz
from omegamax.tasks.run_task import load_tasks
from omegamax.tasks.vqa import VQAData, VQATask
from omegamax.tasks.vqa.demo import ROWS
from omegamax.tasks.vqa.explain import explain
from omegamax.viz.style import pyplot

OUT = Path(__file__).parent / "assets" / "looks.png"
REGION = "several"  # things far apart matter


def find(samples, tasks):
    """The first test question about things far apart that all networks answer rightly, and what they say."""
    for index in range(len(samples)):
        if samples.ask(index).region == REGION:
            sample = samples[index]
            said = {name: explain(task, sample) for name, task in tasks.items()}
            if sample.kind == "other" and all(each.answers[0][0] == sample.answer for each in said.values()):
                return sample, said
    raise SystemExit("no question about things far apart is answered rightly by all; try another demo")


if __name__ == "__main__":
    pyplot().switch_backend("agg")
    runs = Path(sys.argv[1] if len(sys.argv) > 1 else "demo") / "runs"
    tasks = load_tasks(VQATask, [runs / part for part in ROWS])
    sample, said = find(VQAData.of(next(iter(tasks.values())).data_settings).read("test"), tasks)
    figure = viz.looks(
        sample.image,
        {name: each.look for name, each in said.items()},
        question=sample.question,
        answers={name: each.answers[0][0] for name, each in said.items()},
        truth=sample.answer,
        relevance=sample.relevance,
        columns=5,  # two rows: the tour shows it at half the width of a screen
        index=0,
    )
    figure.savefig(OUT, dpi=100)
    print(f"{sample.id}, {OUT}: {OUT.stat().st_size / 1000:.0f} kB")
