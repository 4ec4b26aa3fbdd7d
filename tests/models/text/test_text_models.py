"""Networks that read texts: sizes, kinds of attention against their definitions, padding, edge cases."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from omegamax.models.attention_kind import CONTINUOUS
from omegamax.models.text import TextAttention, TextClassifier, TextConfig, WordsConfig
from omegamax.models.text.config import DISCRETE

KINDS = [
    *(WordsConfig(kind, k=2) for kind in DISCRETE),
    *(WordsConfig(kind, functions=8) for kind in CONTINUOUS),
    WordsConfig("continuous_softmax", functions=8, combined=True),
    WordsConfig("continuous_sparsemax", functions=8, combined=True, discrete="sparsemax"),
    WordsConfig("continuous_softmax", functions=8, source="cnn", filters=4),
    WordsConfig("continuous_sparsemax", functions=8, source="cnn", filters=4),
    WordsConfig("continuous_entmax", functions=8, source="cnn", filters=4, alpha=1.3, learnable=True),
    WordsConfig("multimodal", functions=8, components="selected", max_components=2),
    WordsConfig("entmax", learnable=True),
    WordsConfig("fusedmax", learnable=True, strength=0.3),
]
NAMES = [f"{kind.kind}{'+' * kind.combined}{'-cnn' * (kind.source == 'cnn')}{'~' * kind.learnable}" for kind in KINDS]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=NAMES)


def make(kind=None, **changes):
    torch.manual_seed(0)
    kind = WordsConfig() if kind is None else kind
    return TextClassifier(TextConfig.small(30, 3, attention=kind, **changes)).double().eval()


def batch(*lengths, seed=1):
    generator = torch.Generator().manual_seed(seed)
    words = torch.zeros(len(lengths), max(lengths), dtype=torch.int64)
    for row, length in enumerate(lengths):
        words[row, :length] = torch.randint(1, 30, (length,), generator=generator)
    return {"words": words}


def count(model):
    return sum(p.numel() for p in model.parameters())


def test_sizes_are_those_of_table_3():
    config = TextConfig(1000, 2)
    lstm = 2 * (4 * 128 * (300 + 128) + 2 * 4 * 128)
    scorer, classifier = 256 * 128 + 128 + 128, 256 * 2 + 2
    assert count(TextClassifier(config)) == 1000 * 300 + lstm + scorer + classifier
    cnn = config.replace(attention=WordsConfig("continuous_softmax", source="cnn"))
    assert count(TextClassifier(cnn)) == 1000 * 300 + lstm + (256 * 128 * 3 + 128) + (128 * 2 + 2) + classifier


def test_states_are_those_of_a_packed_bidirectional_lstm():
    encoder = make().encoder
    both = torch.nn.LSTM(64, 32, batch_first=True, bidirectional=True).double()
    own = {**encoder.onward.state_dict(), **{f"{k}_reverse": v for k, v in encoder.back.state_dict().items()}}
    both.load_state_dict(own)
    x, lengths = torch.randn(3, 7, 64, dtype=torch.float64), torch.tensor([7, 4, 1])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    wanted, _ = torch.nn.utils.rnn.pad_packed_sequence(both(packed)[0], batch_first=True)
    assert torch.allclose(encoder(x, lengths, torch.arange(7) < lengths[:, None]), wanted, rtol=0, atol=1e-12)


def test_all_kinds_have_the_same_parameters_but_for_what_is_learnt_in_addition():
    own = {count(make(kind)) - kind.learnable for kind in KINDS if kind.source == "weights"}
    assert own == {count(make())}
    before = make().state_dict()
    for kind in KINDS:
        if kind.source == "weights" and not kind.learnable:
            make(kind).load_state_dict(before)


@each_kind
def test_weights_are_a_distribution_over_the_words_and_gradients_are_finite(kind):
    model = make(kind).train()
    given = batch(7, 3, 1, 2)
    answer = model(given)
    weights, mask = answer.attention.weights, given["words"] != 0
    assert weights.shape == mask.shape and bool((weights >= 0).all()) and not weights[~mask].any()
    assert torch.allclose(weights.sum(-1), torch.ones(4, dtype=weights.dtype), atol=1e-6)
    empty = answer.attention.empty()
    assert bool(empty[~mask].all()) and not weights[empty].any() and not empty.all(-1).any()
    answer.logits.square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name


@each_kind
@pytest.mark.parametrize("encoder", ["bilstm", "transformer"])
def test_padding_changes_nothing(kind, encoder):
    model = make(kind, encoder=encoder)
    alone = [model({"words": batch(9, 4, 1)["words"][row : row + 1, :length]}) for row, length in enumerate((9, 4, 1))]
    together = model(batch(9, 4, 1))
    wide = model({"words": F.pad(batch(9, 4, 1)["words"], (0, 5))})
    for row, one in enumerate(alone):
        length = one.attention.mask.shape[1]
        for several in (together, wide):
            assert torch.allclose(several.logits[row], one.logits[0], atol=1e-9)
            assert torch.allclose(several.attention.weights[row, :length], one.attention.weights[0], atol=1e-7)


def look(kind, lengths=(6, 4), dim=5):
    torch.manual_seed(3)
    layer = TextAttention(dim, 7, kind).double()
    h, lengths = torch.randn(len(lengths), max(lengths), dim, dtype=torch.float64), torch.tensor(lengths)
    mask = torch.arange(h.shape[1]) < lengths.unsqueeze(-1)
    return layer, h, *layer(h, lengths, mask)


def scores(layer, h):
    w, b, v = layer.score[0].weight, layer.score[0].bias, layer.score[2].weight
    return torch.tanh(h @ w.T + b) @ v[0]


def test_discrete_context_is_the_mean_under_softmax_of_additive_scores():
    layer, h, context, attention = look(WordsConfig())
    p = scores(layer, h[1, :4]).softmax(-1)
    assert torch.allclose(attention.weights[1, :4], p) and torch.allclose(context[1], p @ h[1, :4])


@pytest.mark.parametrize("kind", ["k_subsets", "sequential_k_subsets"])
def test_k_words_share_the_attention_and_short_texts_have_all_of_theirs(kind):
    *_, attention = look(WordsConfig(kind, k=3, transition=0.0), (6, 2))
    p = attention.weights.detach()
    assert float(p[0].max()) <= 1 / 3 + 1e-12 and int((p[0] > 0).sum()) >= 3
    assert torch.allclose(p[1], torch.tensor([0.5, 0.5, 0, 0, 0, 0], dtype=p.dtype))


def value_function(h, config, t):
    """Return V(t) of states ``[L, D]`` at points ``[T]``: ridge regression on N bumps, written out."""
    length, count = len(h), config.functions // len(config.widths)
    positions = (torch.arange(length, dtype=h.dtype) + 0.5) / length
    normal = [
        torch.distributions.Normal(center, torch.tensor(width).square().to(h).sqrt())
        for center in torch.linspace(0, 1, count).to(h)  # rounded as those of the network
        for width in config.widths
    ]
    psi = torch.stack([each.log_prob(positions).exp() for each in normal])  # [N, L]
    eye = torch.eye(len(psi), dtype=h.dtype)
    coefficients = torch.linalg.solve(psi @ psi.T + config.penalty * eye, psi @ h)  # [N, D]
    return torch.stack([each.log_prob(t).exp() for each in normal], -1) @ coefficients


def integrate(p, low, high, h, config):
    """Return the mean of V under a density p over its support, by Gauss and Legendre's rule."""
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(400))
    t = (low + high) / 2 + (high - low) / 2 * nodes
    return (high - low) / 2 * torch.einsum("t,t,td->d", weights, p(t), value_function(h, config, t))


def gaussian(mean, variance):
    """Return a Gaussian, and where it is not 0 for a float."""
    normal, far = torch.distributions.Normal(mean, variance.sqrt()), 9 * variance.sqrt()
    return lambda t: normal.log_prob(t).exp(), mean - far, mean + far


def parabola(mean, scale):
    """Return a truncated parabola with this location and sigma^2, and its support."""
    radius = (1.5 * scale) ** (1 / 3)
    return lambda t: ((radius**2 - (t - mean) ** 2) / (2 * scale)).clamp(min=0), mean - radius, mean + radius


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_location_and_variance_from_the_cnn(alpha):
    name = {1.0: "continuous_softmax", 2.0: "continuous_sparsemax"}[alpha]
    config = WordsConfig(name, source="cnn", filters=4, functions=8)
    layer, h, context, attention = look(config)
    states = h[1, :4]
    padded = F.pad(states, (0, 0, 1, 1))
    windows = torch.stack([padded[i : i + 3] for i in range(4)])  # [L, 3, D]
    weight, bias = layer.encode.convolve.weight, layer.encode.convolve.bias
    v = (torch.einsum("lkd,fdk->lf", windows, weight) + bias).relu().amax(0)
    out = layer.density.query.weight @ v + layer.density.query.bias
    mean, scale = out[0].sigmoid(), F.softplus(out[1])
    assert torch.allclose(attention.density.loc[1, 0], mean)
    p = gaussian(mean, scale) if alpha == 1 else parabola(mean, scale)
    assert torch.allclose(context[1], integrate(*p, states, config), rtol=0, atol=1e-9)
    assert attention.discrete is None and attention.weights.shape == (2, 6)


def test_combined_attention_is_the_sum_of_both():
    config = WordsConfig("continuous_softmax", combined=True, functions=8, floor=0.0)
    layer, h, context, attention = look(config)
    states, positions = h[1, :4], (torch.arange(4, dtype=h.dtype) + 0.5) / 4
    p = scores(layer, states).softmax(-1)
    mean = p @ positions
    density = gaussian(mean, p @ positions.square() - mean.square())
    wanted = p @ states + integrate(*density, states, config)
    assert torch.allclose(context[1], wanted, rtol=0, atol=1e-9)
    assert torch.allclose(attention.weights, (attention.shares() + attention.discrete) / 2)


def test_continuous_sparsemax_has_words_without_any_attention():
    layer, h, *_ = look(WordsConfig("continuous_sparsemax", functions=8, source="cnn", filters=4), (40,))
    with torch.no_grad():
        layer.density.query.bias.copy_(torch.tensor([0.0, -9.0]))
    _, attention = layer(h, torch.tensor([40]), torch.ones(1, 40, dtype=torch.bool))
    density, empty = attention.density, attention.empty()[0]
    middles = (torch.arange(40, dtype=h.dtype) + 0.5) / 40
    outside = density.log_prob(middles.view(-1, 1, 1))[:, 0].isneginf()
    assert 0 < int((~empty).sum()) < 20 and bool((outside | ~empty).all())  # a word counts if any point of it does


def test_heads_of_the_transformer_learn_their_alphas():
    model = make(encoder="transformer", layers=3, heads=4)
    assert model.alphas.shape == (3, 4) and torch.allclose(model.alphas, torch.full((3, 4), 1.5, dtype=torch.float64))
    optimiser = torch.optim.Adam(model.parameters(), 0.05)
    for _ in range(3):
        optimiser.zero_grad()
        F.cross_entropy(model(batch(7, 3)).logits, torch.tensor([0, 2])).backward()
        optimiser.step()
    assert len(model.alphas.detach().unique()) == 12
    assert make().alphas is None
    assert make(encoder="transformer", learn_alpha=False, alpha=2.0).alphas.tolist() == [[2.0] * 4] * 2


def test_words_may_be_given():
    rows = torch.randn(30, 64)
    config = TextConfig.small(30, 2)
    model = TextClassifier(config, rows)
    assert torch.equal(model.embedding.weight, rows)
    with pytest.raises(ValueError, match=r"embedding must be \[words, word_dim\] = \(30, 64\), got shape \(3, 64\)"):
        TextClassifier(config, rows[:3])


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "median"},
        {"kind": "softmax", "alpha": 1.5},
        {"kind": "softmax", "learnable": True},
        {"kind": "softmax", "combined": True},
        {"kind": "softmax", "source": "cnn"},
        {"kind": "multimodal", "source": "cnn"},
        {"kind": "continuous_softmax", "source": "cnn", "combined": True},
        {"functions": 33},
        {"widths": ()},
        {"widths": (0.1, -1.0)},
        {"k": 0},
        {"strength": -1.0},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(ValueError, match="WordsConfig"):
        WordsConfig(**settings)


def test_batches_that_make_no_sense_are_refused():
    model = make()
    with pytest.raises(TypeError, match=r"integer indices, got torch.float32"):
        model({"words": torch.zeros(2, 3)})
    with pytest.raises(ValueError, match=r"must be \[B, L\] with L >= 1"):
        model({"words": torch.zeros(2, 0, dtype=torch.int64)})
    with pytest.raises(IndexError, match=r"indices in \[0, 30\), got 30"):
        model({"words": torch.tensor([[30]])})
    with pytest.raises(ValueError, match="multiple of heads"):
        TextConfig(2, 2, encoder="transformer", hidden_dim=3, heads=4)


def test_a_configuration_is_written_and_read():
    config = TextConfig.small(30, 3, attention=WordsConfig("multimodal", widths=(0.1, 0.2, 0.5), functions=9))
    assert TextConfig.from_dict(config.to_dict()) == config
    with pytest.raises(TypeError):
        TextConfig.from_dict({**config.to_dict(), "colour": 1})
