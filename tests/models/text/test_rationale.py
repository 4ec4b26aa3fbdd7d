"""Rationales: words that are chosen, how many, and that nothing else is read."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from omegamax import k_subsets, sequential_k_subsets
from omegamax.mixed import HardConcrete
from omegamax.models.text import RationaleClassifier, RationaleConfig, TextConfig, WordsConfig, WordSelector
from omegamax.models.text.rationale_config import SELECTORS
from omegamax.structured import Budget, FactorGraph, Pair

each_selector = pytest.mark.parametrize("selector", SELECTORS)
each_encoder = pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
EXACT = ("k_subsets", "sequential_k_subsets")


def make(selector="k_subsets", encoder="bilstm", attention="softmax", **settings):
    torch.manual_seed(0)
    rationale = RationaleConfig(selector, **{"k": 3, **settings})
    config = TextConfig.small(30, 3, encoder=encoder, attention=WordsConfig(attention), rationale=rationale)
    return RationaleClassifier(config).double().eval()


def batch(*lengths):
    generator = torch.Generator().manual_seed(1)
    words = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in enumerate(lengths):
        words[row, :length] = torch.randint(1, 30, (length,), generator=generator)
    return {"words": words}


def select(selector, z, mask=None, train=False, **settings):
    layer = WordSelector(RationaleConfig(selector, **settings)).train(train)
    return layer(z, torch.ones_like(z, dtype=torch.bool) if mask is None else mask)


@each_selector
@each_encoder
def test_gradients_reach_reader_and_generator(selector, encoder):
    model = make(selector, encoder).train()
    torch.manual_seed(1)
    answer = model(batch(9, 4, 1, 8))
    assert (answer.penalty is not None) == (selector == "hard_concrete")
    loss = F.cross_entropy(answer.logits, torch.tensor([0, 2, 1, 1]))
    loss.backward()  # the penalty is left out: the reader alone teaches the generator
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
    assert bool(model.score[0].weight.grad.any()) and bool(model.classify.weight.grad.any())


@each_encoder
@pytest.mark.parametrize("attention", ["softmax", "sparsemax", "fusedmax"])
def test_words_of_weight_zero_take_no_part(encoder, attention):
    model = make(encoder=encoder, attention=attention)
    x = torch.randn(2, 6, 64, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[0, 0.5, 0, 0, 1.0, 0], [0, 0, 0, 0.25, 0, 0]], dtype=torch.float64)
    logits = model.read_rationale(x, weights)
    (gradient,) = torch.autograd.grad(logits.square().sum(), x)
    assert not gradient[weights == 0].any() and bool(gradient[weights != 0].any(-1).all())
    other = torch.where(weights.unsqueeze(-1) == 0, torch.full_like(x, 1e6), x)
    assert torch.equal(model.read_rationale(other, weights), logits)
    # They are not even empty places: the reader has the chosen words side by side.
    alone = model.read_rationale(x[:1, [1, 4]], weights[:1, [1, 4]])
    assert torch.allclose(logits[0], alone[0], rtol=0, atol=1e-12)


@each_selector
def test_words_that_are_not_chosen_are_named_so(selector):
    model = make(selector)
    answer = model(batch(9, 4, 1))
    chosen = answer.rationale != 0
    assert torch.equal(answer.attention.empty(), ~chosen)
    assert bool((answer.rationale >= 0).all() and (answer.rationale <= 1).all())
    total = answer.rationale.sum(-1, keepdim=True)
    assert torch.allclose(answer.attention.weights * total, answer.rationale)
    embedded = model.embedding(batch(9, 4, 1)["words"])
    assert torch.equal(model.read_rationale(embedded, answer.rationale), answer.logits)


@each_selector
@each_encoder
def test_padding_changes_nothing(selector, encoder):
    model = make(selector, encoder)
    words = batch(9, 4, 1)["words"]
    wide = model({"words": F.pad(words, (0, 5))})
    for row, length in enumerate((9, 4, 1)):
        alone = model({"words": words[row : row + 1, :length]})
        assert torch.allclose(wide.logits[row], alone.logits[0], rtol=0, atol=1e-9)
        assert torch.allclose(wide.rationale[row, :length], alone.rationale[0], rtol=0, atol=1e-9)


LENGTHS = [
    ({"k": 3}, [3, 3, 2, 1]),
    ({"k": 1}, [1, 1, 1, 1]),
    ({"share": 0.3}, [3, 3, 1, 1]),
    ({"share": 1.0}, [10, 7, 2, 1]),
    ({"share": 0.01}, [1, 1, 1, 1]),
]


@pytest.mark.parametrize(("settings", "wanted"), LENGTHS, ids=str)
@pytest.mark.parametrize("selector", EXACT)
def test_rationales_are_exactly_as_long_as_they_should_be(selector, settings, wanted):
    answer, wanted = make(selector, **settings)(batch(10, 7, 2, 1)), torch.tensor(wanted, dtype=torch.float64)
    assert torch.allclose(answer.rationale.sum(-1), wanted, rtol=0, atol=1e-12)
    weights = make(selector, **settings).train()(batch(10, 7, 2, 1)).rationale.sum(-1)
    assert torch.allclose(weights, wanted, rtol=0, atol=1e-12)
    for training in (True, False):
        budget = make("budget", **settings).train(training)(batch(10, 7, 2, 1)).rationale.sum(-1)
        assert bool((budget <= wanted + 1e-12).all())


@pytest.mark.parametrize(("settings", "wanted"), LENGTHS, ids=str)
@each_selector
def test_in_evaluation_a_rationale_has_as_many_words_as_it_should(selector, settings, wanted):
    answer = make(selector, **settings)(batch(10, 7, 2, 1))
    assert (answer.rationale != 0).sum(-1).tolist() == wanted
    if selector != "hard_concrete":
        assert bool(((answer.rationale == 0) | (answer.rationale == 1)).all())


@pytest.mark.parametrize("transition", [0.7, 0.0, -0.9])
@pytest.mark.parametrize("selector", [each for each in SELECTORS if each != "hard_concrete"])
def test_in_evaluation_the_best_set_of_words_is_that_of_brute_force(selector, transition):
    z = torch.randn(6, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    mask = torch.ones_like(z, dtype=torch.bool)
    mask[0, 5:], mask[1, 2:] = False, False
    chosen, _ = select(selector, z, mask, k=3, temperature=0.5, transition=transition)
    s = 0.0 if selector == "k_subsets" else transition
    for row, there, found in zip(z, mask, chosen, strict=True):
        n = int(there.sum())
        k = min(3, n)
        sets = [torch.tensor(each, dtype=torch.float64) for each in itertools.product((0, 1), repeat=n)]
        sets = [each for each in sets if (each.sum() <= k if selector == "budget" else each.sum() == k)]
        best = max(sets, key=lambda u: float(row[:n] @ u) / 0.5 + s * float(u[1:] @ u[:-1]))
        assert found[:n].tolist() == best.tolist() and not found[n:].any()


@each_selector
def test_a_nan_spoils_its_own_text(selector):
    z = torch.tensor([[0.5, torch.nan, 0.1], [0.3, 0.2, 0.9]], dtype=torch.float64)
    chosen, _ = select(selector, z, k=1)
    assert chosen[0].isnan().any() and chosen[1].tolist()[:2] == [0, 0] and float(chosen[1, 2]) > 0


def test_a_share_is_rounded_up_and_not_by_rounding_errors():
    for count in range(1, 201):
        for tenths in range(1, 11):
            assert RationaleConfig(share=tenths / 10).count_words(count) == -(-tenths * count // 10)


def test_selectors_are_the_maps_that_they_are_named_after():
    z = torch.randn(3, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    settings = {"k": 3, "temperature": 0.5, "transition": 0.4}
    assert torch.equal(select("k_subsets", z, train=True, **settings)[0], k_subsets(z / 0.5, 3))
    wanted = sequential_k_subsets(z / 0.5, 3, 0.4)
    assert torch.allclose(select("sequential_k_subsets", z, train=True, **settings)[0], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("transition", [0.3, 0.0, -0.4])
@pytest.mark.parametrize("shift", [-1.0, 0.0, 5.0])
def test_a_budget_is_the_lp_sparsemap_of_its_graph(transition, shift):
    z = torch.randn(4, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(4)) + shift
    z.requires_grad_()
    padded = F.pad(z, (0, 3), value=7.0)
    u, _ = select("budget", padded, padded != 7, train=True, k=3, temperature=1.0, transition=transition)
    assert not u[:, 9:].any()
    u = u[:, :9]
    graph = FactorGraph()
    wanted = graph.variable_from(z, batch_dims=1)
    graph.add(Pair(wanted[:-1], wanted[1:], transition))
    graph.add(Budget(wanted, 3))
    graph.solve()
    assert torch.allclose(u, wanted.value, rtol=0, atol=1e-8)
    direction = torch.randn_like(u)
    found, expected = (torch.autograd.grad((each * direction).sum(), z)[0] for each in (u, wanted.value))
    assert torch.allclose(found, expected, rtol=0, atol=1e-8)


def test_hard_concrete_is_held_to_its_number_by_an_augmented_lagrangian():
    z = torch.tensor([[3.0, -1.0, 0.0, 9.0]], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[True, True, True, False]])
    settings = RationaleConfig("hard_concrete", k=1, temperature=0.5, penalty=2.0, growth=0.1, anneal=4)
    layer = WordSelector(settings).double()
    p = HardConcrete(0.5, logits=torch.stack([z, 0 * z], -1), stretch=1.2)
    share = (1 - p.face_probs()[0, :3, 1]).mean()
    multiplier = 0.0
    for step in range(6):  # from all words to one, in four steps
        excess = share - (1 / 3) ** min(step / 4, 1)
        weights, penalty = layer(z, mask)
        assert torch.allclose(penalty, multiplier * excess + excess.square(), rtol=0, atol=1e-12)
        assert float(weights.detach()[0, 3]) == 0
        multiplier += 0.1 * float(excess.detach())
        assert float(layer.multiplier) == pytest.approx(multiplier, abs=1e-12)
    (gradient,) = torch.autograd.grad(penalty, z)
    assert bool((gradient[0, :3] > 0).all()) and float(gradient[0, 3]) == 0  # too many are chosen
    again = WordSelector(settings).double()
    again.load_state_dict(layer.state_dict())
    assert int(again.steps) == 6 and float(again.multiplier) == float(layer.multiplier)


def test_hard_concrete_takes_the_likeliest_words_with_the_median_of_their_weights():
    z = torch.tensor([[-2.0, -1.2, 0.4, 0.0, 9.0]], dtype=torch.float64)
    weights, penalty = select("hard_concrete", z, k=3, temperature=0.5)
    assert penalty is None and not weights[0, :2].any() and float(weights[0, 4]) == 1
    torch.manual_seed(0)
    drawn, _ = select("hard_concrete", z.expand(40_000, -1), train=True, k=3, temperature=0.5)
    for word in (2, 3):
        some = drawn[:, word][drawn[:, word] > 0]
        assert abs(float(some.median() - weights[0, word])) < 0.02
    never, _ = select("hard_concrete", torch.full((1, 4), -800.0), k=2, temperature=0.5)
    assert (never != 0).sum() == 2  # however unlikely all are
    many, _ = select("hard_concrete", torch.zeros(1, 4000), train=True, k=1, temperature=0.5)
    faces = HardConcrete(0.5, logits=torch.zeros(2), stretch=1.2).face_probs()
    assert abs(float((many == 0).double().mean()) - float(faces[1])) < 0.03


@each_encoder
def test_a_text_of_which_nothing_is_chosen_is_answered_by_the_bias(encoder):
    model = make("budget", encoder)
    with torch.no_grad():
        model.score[-1].bias.fill_(-100.0)
    answer = model(batch(5, 2))
    assert not answer.rationale.any() and not answer.attention.weights.any()
    assert torch.equal(answer.logits, model.classify.bias.expand(2, -1))


def test_settings_that_make_no_sense_are_refused():
    for settings in ({"selector": "median"}, {"k": 0}, {"share": 0.0}, {"share": 1.5}, {"temperature": 0.0}):
        with pytest.raises(ValueError, match="RationaleConfig"):
            RationaleConfig(**settings)
    with pytest.raises(ValueError, match="must have a rationale, got None"):
        RationaleClassifier(TextConfig.small(3, 2))
    with pytest.raises(ValueError, match="rationale goes with discrete attention, got 'continuous_softmax'"):
        TextConfig.small(attention=WordsConfig("continuous_softmax"), rationale=RationaleConfig())


def test_a_configuration_is_written_and_read():
    config = TextConfig.small(30, 3, rationale=RationaleConfig("budget", share=0.2))
    assert TextConfig.from_dict(config.to_dict()) == config
