"""The fuzz command draws the same cases again, finds what is wrong, and finds nothing in a few cases of every map."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from .__main__ import MAPS, OPERATIONS, check_any, draw_any
from .checks import check
from .draws import draw
from .interpreted import INTERPRETER, interpreted


@pytest.mark.parametrize("name", MAPS)
def test_case_is_drawn_again_from_its_index(name: str):
    for seed in range(5):
        first, second = draw(seed, (name,)), draw(seed, (name,))
        assert str(first) == str(second)
        assert torch.equal(first.z.nan_to_num(), second.z.nan_to_num()) and first.z.stride() == second.z.stride()


@pytest.mark.parametrize("seed", range(20))
def test_wrong_probabilities_are_found(seed: int):
    case = draw(seed, ("sparsemax", "entmax15", "softmax"))
    function = case.function

    def wrong(z, **options):
        p = function(z, **options)
        return p if z.dtype == torch.float64 else p * (1 + 16 * torch.finfo(z.dtype).eps)

    if case.z.dtype == torch.float64 or not bool((case.call().nan_to_num() > 0).any()):
        return
    assert list(check(dataclasses.replace(case, function=wrong)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAPS)
def test_map_has_no_fault_in_a_few_cases(name: str):
    for seed in range(6):
        case = draw(seed, (name,))
        assert not list(check(case)), str(case)


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton compiles where there is a GPU")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MAPS)
def test_interpreted_kernels_have_no_fault_in_a_few_cases(name: str):
    pytest.importorskip("triton", minversion="3.4")
    with interpreted():
        for seed in range(100, 106):
            case = draw(seed, (name,), small=True)
            assert not list(check(case, INTERPRETER)), str(case)


@pytest.mark.skipif(torch.cuda.is_available(), reason="Triton compiles where there is a GPU")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in ("paged", "multimodal") else []) for n in OPERATIONS]
)
def test_interpreted_operations_have_no_fault_in_a_few_cases(name: str):
    pytest.importorskip("triton", minversion="3.4")
    with interpreted():
        for seed in range(2):
            case = draw_any(seed, (name,), True)
            assert case.map == name and str(draw_any(seed, (name,), True)) == str(case)
            assert not list(check_any(case, INTERPRETER)), str(case)


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "dropout"])  # which plain torch does not draw
def test_wrong_results_of_operations_are_found(name: str):
    found = []
    for seed in range(5):
        case = draw_any(seed, (name,), True)
        run = case.run

        def wrong(place, plain, run=run):
            return [t if plain else 1.1 * t for t in run(place, True)]

        found += check_any(dataclasses.replace(case, run=wrong), INTERPRETER)
    assert found
