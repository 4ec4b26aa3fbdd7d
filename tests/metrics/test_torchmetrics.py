"""Metrics of torchmetrics: batches add up to the whole, alone, in collections, after pickling, over processes."""

import copy
import inspect
import math
import pickle
import subprocess
import sys

import pytest
import torch
import torchmetrics

from omegamax import metrics
from omegamax.densities import Gaussian

F64 = torch.float64
CASES = {
    "JensenShannon": (metrics.jensen_shannon, {"base": math.e, "sqrt": True}, ("p", "q")),
    "RankCorrelation": (metrics.rank_correlation, {}, ("p", "q")),
    "MassInside": (metrics.mass_inside, {}, ("p", "region")),
    "Entropy": (metrics.entropy, {"base": 10.0}, ("p",)),
    "ZeroArea": (metrics.zero_area, {}, ("p",)),
}
every = pytest.mark.parametrize("name", CASES)


def examples(count=7):
    p, q = torch.rand(2, count, 4, 5, dtype=F64)
    mask = torch.rand(count, 4, 5) > 0.1
    return {"p": p.where(p > 0.3, 0), "q": q.where(q > 0.3, 0), "region": q > 0.5, "mask": mask}


def made(name, **options):
    function, own, arguments = CASES[name]
    options = {"dim": (-2, -1), **own, **options}
    return getattr(metrics, name)(**options), function, {**own, "dim": (-2, -1)}, (*arguments, "mask")


@every
def test_batches_add_up_to_one_shot(name):
    metric, function, options, arguments = made(name)
    data = examples()
    for start, end in ((0, 3), (3, 4), (4, 7)):
        metric.update(**{k: data[k][start:end] for k in arguments})
    wanted = function(**{k: data[k] for k in arguments}, **options).mean()
    assert (metric.compute() - wanted).abs() <= 1e-15
    assert metric.count == 7 and metric.skipped == 0


@every
def test_forward_is_the_batch_and_adds_it(name):
    metric, function, options, arguments = made(name)
    data = examples()
    for start, end in ((0, 3), (3, 7)):
        batch = {k: data[k][start:end] for k in arguments}
        assert (metric(**batch) - function(**batch, **options).mean()).abs() <= 1e-15
    assert (metric.compute() - function(**{k: data[k] for k in arguments}, **options).mean()).abs() <= 1e-15


@every
def test_reset_copy_and_pickle(name):
    metric, _, _, arguments = made(name)
    data = {k: v for k, v in examples().items() if k in arguments}
    metric.update(**data)
    value = metric.compute()
    for other in (pickle.loads(pickle.dumps(metric)), copy.deepcopy(metric), metric.clone()):
        assert torch.equal(other.compute(), value)
        other.update(**{k: v[:2] for k, v in data.items()})
        assert other.count == 9 and metric.count == 7
    metric.reset()
    assert metric.count == 0
    metric.update(**data)
    assert torch.equal(metric.compute(), value)


@every
def test_state_dict_and_merging(name):
    data = examples()
    whole, first, second = (made(name)[0] for _ in range(3))
    arguments = made(name)[3]
    for metric, part in ((whole, slice(0, 7)), (first, slice(0, 3)), (second, slice(3, 7))):
        metric.persistent(True)
        metric.update(**{k: data[k][part] for k in arguments})
    first.merge_state(second)
    assert (first.compute() - whole.compute()).abs() <= 1e-15
    loaded = made(name)[0]
    loaded.persistent(True)
    loaded.load_state_dict(whole.state_dict())
    loaded.update(**{k: data[k][:0] for k in arguments})
    assert torch.equal(loaded.compute(), whole.compute())


@every
def test_several_processes_sum(name):
    # torchmetrics gathers the states of all processes; here two, which hold the same.
    metric, _, _, arguments = made(name, dist_sync_fn=lambda state, group: [state, state])
    metric.distributed_available_fn = lambda: True
    data = {k: v for k, v in examples().items() if k in arguments}
    alone = made(name)[0]
    metric.update(**data)
    alone.update(**data)
    assert (metric.compute() - alone.compute()).abs() <= 1e-15
    metric.sync(dist_sync_fn=lambda state, group: [state, state], distributed_available=lambda: True)
    assert metric.count == 14


def test_collection_gives_each_what_it_knows():
    names = list(CASES)
    collection = torchmetrics.MetricCollection([made(name)[0] for name in names])
    data = examples()
    for start, end in ((0, 3), (3, 7)):
        collection.update(**{k: v[start:end] for k, v in data.items()})
    result = collection.compute()
    assert sorted(result) == sorted(names)
    for name in names:
        _, function, options, arguments = made(name)
        assert (result[name] - function(**{k: data[k] for k in arguments}, **options).mean()).abs() <= 1e-15


def test_collection_does_not_take_equal_first_values_for_equal_metrics():
    # All of these are 0 for the first batch.
    collection = torchmetrics.MetricCollection(
        {
            "bits": metrics.JensenShannon(),
            "root": metrics.JensenShannon(sqrt=True),
            "inside": metrics.MassInside(),
            "empty": metrics.ZeroArea(),
        }
    )
    p = torch.tensor([[0.25, 0.75]], dtype=F64)
    none = torch.tensor([False, False])
    collection.update(p=p, q=p, region=none)
    other = torch.tensor([[1.0, 0.0]], dtype=F64)
    collection.update(p=other, q=p, region=~none)
    result = collection.compute()
    bits = metrics.jensen_shannon(other, p).item()
    wanted = {"bits": bits / 2, "root": math.sqrt(bits) / 2, "inside": 0.5, "empty": 0.25}
    assert {k: v.item() for k, v in result.items()} == pytest.approx(wanted, abs=1e-15)


def test_densities():
    density, human = Gaussian(torch.rand(3, 2, dtype=F64), 0.02), torch.rand(3, 4, 6, dtype=F64)
    metric = metrics.JensenShannon(size=(4, 6), samples=2)
    metric.update(density, human)
    wanted = metrics.jensen_shannon(density, human, size=(4, 6), samples=2).mean()
    assert (metric.compute() - wanted).abs() <= 1e-15


def test_undefined_examples():
    p = torch.tensor([[0.0, 0.0], [0.5, 0.5], [1.0, 0.0]])
    loud, quiet = metrics.Entropy(), metrics.Entropy(undefined="skip")
    loud.update(p)
    quiet.update(p)
    assert loud.compute().isnan() and loud.skipped == 0 and loud.count == 3
    assert quiet.compute() == 0.5 and quiet.skipped == 1 and quiet.count == 2
    with pytest.raises(ValueError, match="Entropy: undefined must be one of 'nan', 'skip', got 'drop'"):
        metrics.Entropy(undefined="drop")
    with pytest.raises(ValueError, match="JensenShannon: base must be > 1"):
        metrics.JensenShannon(base=1.0)


def test_sums_of_many_examples_keep_their_digits():
    metric = metrics.ZeroArea()
    p = torch.tensor([0.0, 0.5, 0.5]).expand(2**20, 3)
    for _ in range(20):
        metric.update(p)
    assert abs(metric.compute().item() - float(torch.tensor(1 / 3))) <= 1e-12


def test_gradient_of_a_batch():
    p = torch.rand(3, 5, requires_grad=True)
    metric = metrics.JensenShannon()
    metric(p, torch.rand(3, 5)).backward()
    assert p.grad is not None and p.grad.isfinite().all() and p.grad.ne(0).any()
    assert not metric.compute().requires_grad


def test_repr_says_how_it_measures():
    text = repr(metrics.JensenShannon(size=(4, 6)))
    assert text == "JensenShannon(base=2.0, sqrt=False, dim=None, size=(4, 6), samples=1, undefined='nan')"


@every
def test_classes_are_listed_and_documented(name):
    assert name in dir(metrics)
    thing = getattr(metrics, name)
    assert issubclass(thing, torchmetrics.Metric)
    assert thing.__doc__ and thing.__doc__ != torchmetrics.Metric.__doc__
    assert f"metrics.{CASES[name][0].__name__}" in thing.__doc__
    options = inspect.signature(thing).parameters
    assert {*inspect.signature(CASES[name][0]).parameters} - {"p", "q", "region", "mask"} <= {*options}


def test_type_checkers_see_the_classes_that_are_listed():
    source = inspect.getsource(metrics)
    assert all(f"import {name} as {name}\n" in source for name in CASES)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'omegamax\.metrics' has no attribute 'Nothing'"):
        _ = metrics.Nothing


WITHOUT = """
import sys
sys.modules["torchmetrics"] = None  # an import of it fails
import torch, omegamax
from omegamax import metrics
print(metrics.entropy(torch.ones(4)).item(), "JensenShannon" in dir(metrics))
for attempt in (lambda: metrics.JensenShannon, lambda: exec("from omegamax.metrics import Entropy")):
    try:
        attempt()
    except ImportError as error:
        print(error)
"""


def test_without_torchmetrics_functions_work_and_classes_say_how_to_get_it():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "2.0 True",
        "omegamax.metrics.JensenShannon is a metric of torchmetrics: pip install 'omegamax[train]'",
        "omegamax.metrics.Entropy is a metric of torchmetrics: pip install 'omegamax[train]'",
    ]
