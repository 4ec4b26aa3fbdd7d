"""Krippendorff's alpha: the published example, the definition by pairs, and edge cases."""

import itertools
import math

import pytest
import torch

from omegamax.metrics import krippendorff_alpha

NAN = math.nan
# Four observers and twelve units, the last of which only one has rated.
PUBLISHED = torch.tensor(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
)


@pytest.mark.parametrize(("level", "wanted"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_published_example(level, wanted):
    """Krippendorff (2011), Sec. C."""
    assert float(krippendorff_alpha(PUBLISHED, level)) == pytest.approx(wanted, abs=5e-4)


def by_pairs(ratings, level):
    """One minus the disagreement of pairs within units, over that of all pairs."""
    units = [[v for v in column if not math.isnan(v)] for column in zip(*ratings.tolist(), strict=True)]
    units = [unit for unit in units if len(unit) > 1]
    values = [v for unit in units for v in unit]

    def apart(a, b):
        low, high = min(a, b), max(a, b)
        if level == "nominal":
            return float(a != b)
        if level == "interval":
            return (a - b) ** 2
        between = sum(low <= v <= high for v in values)
        return 0.0 if a == b else (between - (values.count(a) + values.count(b)) / 2) ** 2

    seen = sum(apart(a, b) / (len(unit) - 1) for unit in units for a, b in itertools.permutations(unit, 2))
    chance = sum(apart(a, b) for a, b in itertools.permutations(values, 2))
    return 1 - (len(values) - 1) * seen / chance


@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_definition_by_pairs(level):
    generator = torch.Generator().manual_seed(3)
    for raters in (2, 3, 6):
        ratings = torch.randint(1, 6, (raters, 25), generator=generator).double()
        ratings[torch.rand(ratings.shape, generator=generator) < 0.3] = NAN
        assert float(krippendorff_alpha(ratings, level)) == pytest.approx(by_pairs(ratings, level), abs=1e-9)


def test_agreement_is_one_and_contradiction_below_zero():
    same = torch.tensor([[1, 5, 3, 2]]).expand(3, 4)
    assert float(krippendorff_alpha(same)) == 1
    assert float(krippendorff_alpha(torch.tensor([[1, 2], [2, 1]]))) < 0


@pytest.mark.parametrize(
    "ratings", [torch.full((2, 3), 4.0), torch.tensor([[1.0, NAN], [NAN, 2.0]]), torch.empty(0, 4)]
)
def test_what_chance_does_as_well_is_not_a_number(ratings):
    assert math.isnan(krippendorff_alpha(ratings))


def test_refusals_name_what_is_wrong():
    with pytest.raises(ValueError, match=r"krippendorff_alpha: ratings must be \[raters, units\], got \(3,\)"):
        krippendorff_alpha(torch.ones(3))
    with pytest.raises(ValueError, match="krippendorff_alpha: level must be one of 'nominal'"):
        krippendorff_alpha(torch.ones(2, 2), "ratio")
    with pytest.raises(ValueError, match="krippendorff_alpha: ratings must be finite"):
        krippendorff_alpha(torch.tensor([[1.0, math.inf]]))
    with pytest.raises(TypeError, match=r"krippendorff_alpha: ratings must be a torch\.Tensor, got list"):
        krippendorff_alpha([[1, 2]])
