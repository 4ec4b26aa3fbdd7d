"""Several networks on the same questions: the numbers are those of each alone."""

from dataclasses import asdict

import lightning as L
import pytest
import torch

from omegamax.data import DataError, Vocabulary
from omegamax.metrics import jensen_shannon
from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.quiet import quiet
from omegamax.tasks.report import contenders as module
from omegamax.tasks.vqa import VQATask
from omegamax.tasks.vqa.compare import BLIND, Contender, compare, evaluate, step_times
from omegamax.tasks.vqa.explain import explain, fix_components
from omegamax.tasks.vqa.outcomes import THEMES, WIDE, Outcomes
from tasks.vqa.networks import CURVE, KINDS, SMALL, scenes, trained

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data():
    return scenes()


@pytest.fixture(scope="module")
def tasks(data):
    return {kind: trained(kind, data, grid=data.grid) for kind in KINDS}


@pytest.fixture(scope="module")
def blind(data):
    return trained("softmax", data, grid=data.grid, blind=True)


@pytest.fixture(scope="module")
def compared(tasks, blind, data):
    contenders = {task.label: Contender(task, CURVE) for task in tasks.values()}
    return compare(contenders, data, baseline=Contender(blind), examples=1, themed=1, rounds=2, settings={"seed": "0"})


@torch.no_grad()
def counted(task, data, split="test"):
    """Accuracies, divergence, mass and zeros, from their definitions."""
    samples, right, divergences, masses, zeros = data.read(split), {}, [], [], []
    # In the batches of the data: the random starts of a mixture are those of its place in the batch.
    for start in range(0, len(samples), data.batch_size):
        part = [samples[index] for index in range(start, min(start + data.batch_size, len(samples)))]
        batch = data.collate(part)
        answer = task(batch)
        for place, sample in enumerate(part):
            said = task.vocabulary.answers[answer.logits[place].argmax()]
            right.setdefault(sample.kind, []).append(float(said == sample.answer))
            weights, relevance = answer.attention.weights[place], batch["relevance"][place]
            zeros.append(float((weights == 0).double().mean()))
            if relevance.any():
                divergences.append(float(jensen_shannon(weights, relevance, dim=(-2, -1))))
                masses.append(float(weights[relevance > 0].sum()))
    every = [value for values in right.values() for value in values]
    accuracy = {"overall": mean(every), **{kind: mean(values) for kind, values in right.items()}}
    return accuracy, mean(divergences), mean(masses), mean(zeros)


def mean(values):
    return sum(values) / len(values)


@pytest.mark.parametrize("kind", KINDS)
def test_row_is_what_one_counts_by_hand(compared, tasks, data, kind):
    row = next(row for row in compared.rows if row.kind == kind)
    accuracy, divergence, inside, zero = counted(tasks[kind], data)
    assert row.accuracy == pytest.approx(accuracy, abs=1e-6)
    assert row.divergence == pytest.approx(divergence, abs=1e-4)
    assert row.inside == pytest.approx(inside, abs=1e-4)
    assert row.zero == pytest.approx(zero, abs=1e-6)


def test_rows_are_those_of_lightning_s_test(compared, tasks, data):
    with quiet():
        trainer = L.Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False)
        (found,) = trainer.test(tasks["tvmax"], data, verbose=False)
    row = next(row for row in compared.rows if row.kind == "tvmax")
    for kind, value in row.accuracy.items():
        name = "test_accuracy" if kind == "overall" else f"test_accuracy_{kind.replace('/', '_')}"
        assert value == pytest.approx(found[name], abs=1e-6)
    for name in ("divergence", "inside", "zero"):
        assert getattr(row, name) == pytest.approx(found[f"test_{name}"], abs=1e-6)


def test_components_are_counted_for_mixtures_only(compared, tasks, data):
    rows = {row.kind: row for row in compared.rows}
    counts = []
    with torch.no_grad():
        for batch in data.test_dataloader():
            counts += tasks["multimodal"](batch).attention.density.component_count.tolist()
    assert rows["multimodal"].components == {k: counts.count(k) for k in sorted(set(counts))}
    assert len(rows["multimodal"].components) > 1
    assert all(row.components is None for kind, row in rows.items() if kind != "multimodal")


def test_names_parameters_and_curves(compared, tasks, blind):
    assert [row.name for row in compared.rows] == [kind.replace("_", " ") for kind in KINDS]
    assert {row.parameters for row in compared.rows} == {sum(p.numel() for p in blind.parameters())}
    assert compared.rows[0].curve == CURVE and compared.baseline.curve == []
    assert compared.settings == {"seed": "0"}


def test_baseline_has_answers_and_no_maps(compared, blind, data):
    row = compared.baseline
    assert (row.name, row.kind) == (BLIND, "blind")
    assert row.accuracy["overall"] == pytest.approx(evaluate(blind, data).compute()["accuracy"])
    assert row.divergence is row.inside is row.zero is row.components is None
    assert row.step_ms > 0
    assert all(BLIND not in example.looks for example in compared.examples)


def test_examples_have_a_look_of_everyone(compared):
    for example in compared.examples:
        assert list(example.looks) == [row.name for row in compared.rows]


def test_examples_are_the_first_and_those_with_a_theme(compared, tasks, data):
    first, *picked = compared.examples
    assert first.theme is None and picked and all(example.theme for example in picked)
    for example in picked:
        assert example.theme in THEMES
        if example.theme == WIDE:
            assert any(example.right(row.name) for row in compared.rows)


def test_reliability_is_that_of_the_outcomes(compared, tasks, data):
    for row in compared.rows:
        outcomes = Outcomes()
        evaluate(tasks[row.kind], data, outcomes=outcomes)
        assert row.reliability == [asdict(each) for each in outcomes.reliability()]
        assert bool(row.reliability) == (row.kind not in ("softmax", "tvmax"))
        assert sum(each["count"] for each in row.reliability) in (0, 20)
        assert outcomes.scores.mean().item() == pytest.approx(row.accuracy["overall"])


def test_mixture_is_looked_at_with_every_number_of_components(compared, tasks, data):
    samples = {sample.id: sample for sample in (data.read("test")[i] for i in range(20))}
    for example in compared.examples:
        for name, look in example.looks.items():
            assert [fit.components for fit in look.fits] == ([1, 2, 3, 4] if name == "multimodal" else [])
        look = example.looks["multimodal"]
        assert look.fits[look.components - 1].picture == look.picture
        single = explain(fix_components(tasks["multimodal"])[1], samples[example.id], 1)
        assert single.components == 1 and (look.components == 1 or look.fits[0].answer == single.answers[0][0])


def test_other_split(tasks, data):
    (row,) = compare({"s": Contender(tasks["softmax"])}, data, split="val", examples=0, rounds=0).rows
    accuracy, divergence, *_ = counted(tasks["softmax"], data, "val")
    assert row.accuracy == pytest.approx(accuracy, abs=1e-6)
    assert row.divergence == pytest.approx(divergence, abs=1e-4)
    assert row.step_ms is None


def test_steps_are_timed_in_turns_and_leave_no_trace(tasks, data, monkeypatch):
    batch = next(iter(data.test_dataloader()))
    names, seen = {id(task): kind for kind, task in tasks.items()}, []
    forward = VQATask.forward
    monkeypatch.setattr(VQATask, "forward", lambda self, batch: (seen.append(names[id(self)]), forward(self, batch))[1])
    before = {kind: [p.clone() for p in task.parameters()] for kind, task in tasks.items()}
    # A clock whose n-th reading is the cube of n, in milliseconds.
    ticks = iter(range(1000))
    monkeypatch.setattr(module.time, "perf_counter", lambda: next(ticks) ** 3 / 1e3)
    times = step_times(tasks, batch, rounds=3)
    assert seen == 4 * list(KINDS)
    # The first turn does not count, and of it only the start is read; the median turn is then the second of three.
    reads = {kind: 5 + 10 + 2 * k for k, kind in enumerate(KINDS)}
    assert times == pytest.approx({kind: (n + 1) ** 3 - n**3 for kind, n in reads.items()})
    for kind, task in tasks.items():
        assert not task.training
        assert all(p.grad is None for p in task.parameters())
        assert all(torch.equal(a, b) for a, b in zip(before[kind], task.parameters(), strict=True))
    assert step_times(tasks, batch, rounds=0) == {}


def test_times_are_positive(compared):
    assert all(row.step_ms > 0 for row in compared.rows)


def test_set_without_relevance_has_no_numbers_for_maps(data, monkeypatch):
    whole = data.read("test")

    class Bare(torch.utils.data.Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, index):
            from dataclasses import replace

            return replace(whole[index], relevance=None, region=None)

    bare = scenes()
    monkeypatch.setattr(bare, "read", lambda split: Bare())
    task = trained("tvmax", data, grid=data.grid)
    comparison = compare({"tvmax": Contender(task)}, bare, examples=1, rounds=0)
    (row,), (example,) = comparison.rows, comparison.examples
    assert row.divergence is row.inside is None
    assert row.zero is not None and row.accuracy["overall"] is not None
    assert example.relevance is None and example.looks["tvmax"].divergence is None


def refused(message, data, baseline=None, **tasks):
    contenders = {name: Contender(task) for name, task in tasks.items()}
    with pytest.raises(DataError, match=message):
        compare(contenders, data, baseline=baseline and Contender(baseline), examples=0, rounds=0)


def test_networks_of_other_data_are_refused_by_name(tasks, blind, data):
    good = tasks["softmax"]
    network = MCANConfig.small(**SMALL, grid=(4, 4), output=OutputConfig("softmax"))
    refused("odd knows other words or answers", data, good=good, odd=VQATask(Vocabulary(["is"], ["yes"]), network))
    other_grid = VQATask(data.vocabulary, network.replace(grid=(2, 3)))
    refused(r"odd lays a grid \(2, 3\) over pictures, the data \(4, 4\)", data, good=good, odd=other_grid)
    on_features = VQATask(data.vocabulary, network.replace(pixels=False))
    refused("odd was trained on features, and the data have pictures", data, good=good, odd=on_features)
    featurised = scenes()
    featurised.featurise(good.model.cnn)
    other_dim = VQATask(data.vocabulary, network.replace(image_dim=32))
    refused("odd takes 32 features of a cell, the data have 64", featurised, good=good, odd=other_dim)
    refused("the baseline sees the picture; give one that was trained blind", data, baseline=good, good=good)
    refused("'language only', as the baseline is", data, baseline=blind, **{BLIND: blind})


def test_blind_network_among_the_others_is_measured_and_not_drawn(tasks, blind, data):
    two = {"one": Contender(tasks["softmax"]), "other": Contender(blind)}
    comparison = compare(two, data, examples=1, rounds=0)
    assert [row.name for row in comparison.rows] == ["one", "other"] and comparison.baseline is None
    assert comparison.rows[1].inside is None
    assert list(comparison.examples[0].looks) == ["one"]
    assert compare({"other": Contender(blind)}, data, examples=1, rounds=0).examples == []
