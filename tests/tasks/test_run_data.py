"""Limits of the settings of data: every set has them, and no file is written that they would refuse."""

import inspect

import pytest

from omegamax.tasks.mil import BagsData
from omegamax.tasks.run_data import RunData
from omegamax.tasks.text import TextData
from omegamax.tasks.vqa import ScenesData, VQAData

BASES = (VQAData, BagsData, TextData)
OURS = [kind for base in BASES for kind in base.known().values() if kind.__module__.startswith("omegamax.")]
# Numbers that take no memory and no time, or that the set compares with what there is.
HARMLESS = {
    *("seed", "scene_seed", "bag_seed", "fold_seed", "review_seed", "split_seed", "pair_seed"),
    *("length", "skip_broken", "least", "most", "answers", "channels", "objects", "scale"),
    *("target", "held_out", "fold", "folds"),
}


def numbers(kind):
    """Names of the arguments of a set that are numbers, its bases' included."""
    kinds = [each for each in kind.__mro__ if issubclass(each, RunData)]
    for argument in (each for k in kinds for each in inspect.signature(k).parameters.values()):
        if "int" in str(argument.annotation) or "float" in str(argument.annotation) or argument.annotation == "Size":
            yield argument.name


@pytest.mark.parametrize("kind", OURS)
def test_every_integer_setting_has_a_limit_or_does_no_harm(kind):
    found = set(numbers(kind))
    assert {"batch_size", "workers"} <= found
    assert found - HARMLESS <= kind.limits.keys()


@pytest.mark.parametrize("kind", OURS)
def test_defaults_are_within_the_limits_and_more_is_not(kind):
    defaults = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    kind.check({name: value for name, value in defaults.items() if value is not inspect.Parameter.empty})
    for name, limit in kind.limits.items():
        for value in (limit.least - 1, limit.least, limit.most, limit.most + 1):
            given = value if limit.numbers == 1 else [limit.least] * (limit.numbers - 1) + [value]
            settings = {"class": kind.__name__, name: given}
            base = next(base for base in BASES if issubclass(kind, base))
            if limit.least <= value <= limit.most:
                base.check(settings)
                continue
            with pytest.raises(ValueError, match=f"{kind.__name__}: {name} must be .* got "):
                base.check(settings)


def test_missing_or_too_small_settings_are_refused_with_the_least_value():
    for value in (None, -1, 2.5, "many"):
        with pytest.raises(ValueError, match="ScenesData: batch_size must be an integer >= 1, got "):
            ScenesData(batch_size=value)
    with pytest.raises(ValueError, match="MNISTBagsData: positives must be an integer >= 1, got 0"):
        BagsData.check({"class": "MNISTBagsData", "positives": 0})
    with pytest.raises(ValueError, match="MNISTBagsData: mean must be a number from 0 to 1,048,576, got nan"):
        BagsData.check({"class": "MNISTBagsData", "mean": float("nan")})


@pytest.mark.parametrize("setting", ["batch_size", "workers"])
@pytest.mark.parametrize("value", [10**9, 10**400])
def test_data_beyond_the_limits_are_not_made(setting, value):
    with pytest.raises(ValueError, match=f"ScenesData: {setting} must be an integer from"):
        ScenesData(**{setting: value})
    with pytest.raises(ValueError, match=f"ScenesData: {setting} must be an integer from"):
        VQAData.of({"class": "ScenesData", setting: value})


def test_data_whose_file_would_be_refused_are_refused_before_training():
    with pytest.raises(ValueError, match="ScenesData: image_size must be an integer from 1 to 8,192, got 10000"):
        _ = ScenesData(image_size=10_000).settings


def test_set_may_have_limits_of_its_own(monkeypatch):
    more = ScenesData.limits["image_size"]._replace(most=20_000)
    monkeypatch.setattr(ScenesData, "limits", {**ScenesData.limits, "image_size": more})
    assert VQAData.of(ScenesData(image_size=10_000).settings).image_size == 10_000
    with pytest.raises(ValueError, match="ScenesData: image_size must be an integer from 1 to 20,000, got 20001"):
        VQAData.check({"class": "ScenesData", "image_size": 20_001})
