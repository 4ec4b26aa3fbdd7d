"""The network from end to end: shapes, padding, ragged grids, gradients, one number of parameters, learning."""

from __future__ import annotations

import io

import pytest
import torch

import omegamax
from models.cases import LEARNABLE, OUTPUTS, batch, config, model, rows
from omegamax.data.collate import Collate
from omegamax.data.sample import Sample
from omegamax.data.vocabulary import Vocabulary
from omegamax.densities import Gaussian, Mixture, TruncatedParaboloid
from omegamax.models import GridCNN
from omegamax.models.mcan import KINDS, MCAN, PAPERS, AnswerLoss, ImageGrid, MCANConfig, OutputConfig

every_kind = pytest.mark.parametrize("kind", OUTPUTS)
F64 = torch.float64


def close(a, b, **within):
    torch.testing.assert_close(a, b, **within)


def count(network: torch.nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


# --- What comes out


@every_kind
@pytest.mark.parametrize("training", [True, False])
def test_answer_has_logits_and_attention_that_sums_to_one(kind, training):
    answer = model(kind).train(training)(batch())
    assert answer.logits.shape == (3, 4) and answer.logits.isfinite().all()
    assert answer.words.shape == (3, 4)
    close(answer.words.sum(-1), torch.ones(3))
    assert (answer.words[1, 2:] == 0).all() and (answer.words[2, 3:] == 0).all()
    for map_ in (answer.attention.weights, answer.attention.discrete):
        assert map_.shape == (3, 4, 5) and (map_ >= 0).all()
        close(map_.sum((1, 2)), torch.ones(3))


def test_continuous_kinds_give_their_density():
    wanted = {"softmax": type(None), "continuous_softmax": Gaussian, "multimodal_fixed": Mixture}
    for kind, density in wanted.items():
        assert isinstance(model(kind)(batch()).attention.density, density)
    p = model("continuous_sparsemax")(batch()).attention.density
    assert p.alpha == 2.0 and p.mean.shape == (3, 2)
    assert isinstance(TruncatedParaboloid(p.mean, 0.1), type(p))
    assert model("multimodal_fixed")(batch()).attention.density.weights.shape == (3, 3)


def test_test_mca_is_unimodal_while_training_only():
    unimodal, test = model("continuous_softmax", dropout=0.0), model("multimodal_test", dropout=0.0)
    close(unimodal(batch()).logits, test(batch()).logits)
    assert test(batch()).attention.density.weights.shape[-1] == 1
    counts = model("multimodal_selected").eval()(batch()).attention.density.component_count
    assert counts.shape == (3,)


@pytest.mark.parametrize("kind", ["sparsemax", "entmax", "tvmax", "k_subsets"])
def test_sparse_kinds_leave_cells_out(kind):
    network = model(kind).eval()
    with torch.no_grad():
        network.output.score[-1].weight.mul_(100)
    weights = network(batch()).attention.weights
    assert (weights == 0).any((1, 2)).all()


def test_sparse_density_leaves_cells_out():
    network = model("continuous_sparsemax").eval()
    with torch.no_grad():
        network.output.score[-1].weight.mul_(1000)
    attention = network(batch(sizes=((9, 9),) * 3)).attention
    assert (attention.weights == 0).any((1, 2)).all()
    assert attention.density.support_contains(attention.density.mean).all()


def test_k_subsets_gives_no_cell_more_than_its_share():
    weights = model("k_subsets").eval()(batch(sizes=((4, 5), (1, 3), (2, 2)))).attention.weights
    assert weights.max() <= 1 / 3 + 1e-6
    assert weights[0].max() <= 1 / 5 + 1e-6
    close(weights[1, 0, :3], torch.full((3,), 1 / 3))  # fewer cells than k: all of them
    close(weights[2, :2, :2], torch.full((2, 2), 1 / 4))


def test_tvmax_makes_neighbours_equal_on_the_real_grid():
    network = model(OutputConfig("tvmax", strength=1e3)).eval()
    weights = network(batch(sizes=((4, 5), (2, 3), (4, 5)))).attention.weights
    close(weights[0], torch.full((4, 5), 1 / 20))
    close(weights[1, :2, :3], torch.full((2, 3), 1 / 6))


def test_entmax_kinds_meet_softmax_and_sparsemax():
    for alpha, same in ((1.0, "softmax"), (2.0, "sparsemax")):
        close(model(OutputConfig("entmax", alpha=alpha)).eval()(batch()).logits, model(same).eval()(batch()).logits)
        settings = {"functions": 4, "variance": 0.02}
        continuous = model(OutputConfig("continuous_entmax", alpha=alpha, **settings)).eval()(batch())
        close(continuous.logits, model(f"continuous_{same}").eval()(batch()).logits, atol=1e-4, rtol=1e-4)


def test_discrete_context_by_hand():
    output = model("sparsemax").output.eval().double()
    x = torch.randn(2, 20, 8, dtype=F64)
    context, attention = output(x, ImageGrid((4, 5)))
    z = output.score(x).squeeze(-1)
    tau = torch.stack([_threshold(row) for row in z])
    p = (z - tau[:, None]).clamp(min=0)
    close(attention.weights.flatten(1), p)
    close(context, (p[..., None] * x).sum(1))


def _threshold(z):
    s = z.sort(descending=True).values
    k = torch.arange(1, len(z) + 1)
    support = 1 + k * s > s.cumsum(0)
    return (s[support].sum() - 1) / support.sum()


def test_continuous_context_by_hand():
    """Ridge regression, moments and the Gaussian integral, written out."""
    output = model(OutputConfig("continuous_softmax", functions=4, variance=0.02, padding=False)).output.eval().double()
    x = torch.randn(2, 20, 8, dtype=F64)
    context, attention = output(x, ImageGrid((4, 5)))
    y, c = torch.meshgrid((torch.arange(4) + 0.5) / 4, (torch.arange(5) + 0.5) / 5, indexing="ij")
    places = torch.stack([c, y], -1).reshape(20, 2).double()
    p = output.score(x).squeeze(-1).softmax(-1)
    mean = p @ places
    centred = places - mean[:, None]
    cell = torch.diag(torch.tensor([1 / (12 * 25), 1 / (12 * 16)], dtype=F64))
    covariance = torch.einsum("bl,bli,blj->bij", p, centred, centred) + cell
    nodes = torch.linspace(0, 1, 4, dtype=F64)
    centres = torch.cartesian_prod(nodes, nodes)
    normal = torch.distributions.MultivariateNormal
    wide = torch.eye(2, dtype=F64) * 0.02
    psi = normal(centres, wide).log_prob(places[:, None]).exp()  # [20, 16]
    b = torch.linalg.solve(psi.T @ psi + 0.01 * torch.eye(16, dtype=F64), psi.T @ x)
    r = normal(centres, (covariance + wide)[:, None]).log_prob(mean[:, None]).exp()
    close(context, torch.einsum("bj,bjd->bd", r, b), atol=1e-6, rtol=1e-6)  # the basis is in single precision
    close(attention.density.mean, mean)


# --- Padding


@every_kind
def test_padding_changes_nothing(kind):
    network = model(kind).eval().double()
    alone = batch(sizes=((3, 4),), lengths=(2,), dtype=F64)
    among = batch(sizes=((3, 4), (5, 4), (3, 6)), lengths=(2, 4, 1), dtype=F64)
    among["features"][~among["feature_mask"]] = float("nan")
    one, many = network(alone), network(among)
    assert many.logits.isfinite().all()
    within = {"atol": 1e-6, "rtol": 1e-6} if "continuous" in kind or "multimodal" in kind else {}
    close(many.logits[:1], one.logits, **within)
    close(many.words[:1, :2], one.words)
    for name in ("weights", "discrete"):
        a, b = getattr(many.attention, name), getattr(one.attention, name)
        close(a[:1, :3, :4], b, **within)
        assert (a[0, 3:] == 0).all() and (a[0, :, 4:] == 0).all()
        close(a.sum((1, 2)), torch.ones(3, dtype=F64))


@every_kind
def test_sizes_and_mask_say_the_same_and_a_full_mask_is_none(kind):
    network = model(kind).eval()
    ragged = batch(sizes=((3, 4), (5, 4), (3, 6)))
    for one in ("sizes", "feature_mask"):
        close(network({k: v for k, v in ragged.items() if k != one}).logits, network(ragged).logits)
    full = batch()
    close(network({**full, "feature_mask": None}).logits, network(full).logits)


@every_kind
def test_cells_missing_inside_an_image(kind):
    network = model(kind).eval()
    holed = batch()
    holed["feature_mask"][0, 7] = False
    one, other = network(holed), network({**holed, "features": holed["features"].clone().index_fill_(1, _at(7), 0.5)})
    close(one.logits[0], other.logits[0])
    assert one.attention.discrete[0, 1, 2] == 0
    assert not torch.equal(one.logits[0], network(batch()).logits[0])
    close(one.logits[1:], network(batch()).logits[1:], atol=1e-4, rtol=1e-4)


def _at(index):
    return torch.tensor([index])


@every_kind
def test_question_without_words_and_image_without_cells(kind):
    network = model(kind).eval()
    given = batch()
    given["question"][0] = 0
    given["feature_mask"][1] = False
    given["sizes"][1] = 0
    answer = network(given)
    assert answer.logits.isfinite().all()
    assert (answer.words[0] == 0).all()
    assert (answer.attention.discrete[1] == 0).all() and (answer.attention.weights[1] == 0).all()
    answer.logits.sum().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)


@every_kind
def test_examples_do_not_see_each_other(kind):
    network = model(kind).eval()
    whole = network(batch()).logits
    close(network(rows(batch(), 2, 0)).logits, whole[[2, 0]], atol=1e-5, rtol=1e-4)


def test_batches_of_the_data_part_fit():
    """Ragged features and pictures, as they are collated."""
    grids = [torch.randn(*size, 7) for size in ((3, 4), (5, 2))]
    settings = {"question": "Is it red?", "answers": {"yes": 1.0}, "kind": "yes/no"}
    words = Vocabulary.of(["Is it red?"], ["yes", "no"])
    given = Collate(words)([Sample(id=str(i), features=g, **settings) for i, g in enumerate(grids)])
    network = MCAN(config("continuous_softmax").replace(words=words.num_words, answers=words.num_answers))
    answer = network(given)
    assert answer.logits.shape == given["answers"].shape and answer.attention.weights.shape == (2, 5, 4)
    assert answer.attention.sizes.tolist() == [[3, 4], [5, 2]]
    picture = Sample(id="0", image=torch.zeros(3, 28, 28, dtype=torch.uint8), **settings)
    small = MCAN(MCANConfig.small(words.num_words, words.num_answers))
    assert small(Collate(words, grid=(14, 14))([picture])).logits.shape == (1, 2)


# --- Parameters and gradients


def test_all_kinds_have_the_same_parameters():
    names = {kind: sorted(model(kind).state_dict()) for kind in OUTPUTS}
    assert len({tuple(n) for n in names.values()}) == 1
    assert len({count(model(kind)) for kind in OUTPUTS}) == 1
    assert {count(MCAN(MCANConfig.small(9, 3, output=o))) for o in PAPERS.values()} == {
        count(MCAN(MCANConfig.small(9, 3)))
    }


@pytest.mark.parametrize("kind", LEARNABLE)
def test_learnable_adds_one_parameter_that_learns(kind):
    network = model(OutputConfig(kind, learnable=True, alpha=None if kind == "tvmax" else 1.25))
    assert count(network) == count(model()) + 1
    network(batch()).logits.square().sum().backward()
    (raw,) = (p for name, p in network.named_parameters() if name.endswith("raw"))
    assert raw.grad.isfinite() and raw.grad != 0


@every_kind
def test_gradients_reach_every_parameter(kind):
    network = model(kind, dropout=0.0)
    AnswerLoss()(network(batch()).logits, torch.rand(3, 4)).backward()
    for name, p in network.named_parameters():
        assert p.grad is not None and p.grad.isfinite().all(), name
        # One number added to all scores changes no attention, and a bias of the keys is such a number in a row.
        idle = name.endswith(("key.bias", "score.3.bias"))
        assert idle or p.grad.abs().max() > 0, name


def test_gradient_reaches_the_pixels():
    network = model(pixels=True, grid=(3, 3))
    image = torch.rand(2, 3, 24, 24, requires_grad=True)
    network({"question": torch.tensor([[1, 2], [3, 0]]), "image": image}).logits.square().sum().backward()
    assert all(p.grad is not None for p in network.cnn.parameters())
    assert image.grad.abs().amax((1, 2, 3)).gt(0).all()


# --- Round trips and dtypes


def test_weights_and_configuration_make_a_round_trip():
    first = model("continuous_softmax").eval()
    file = io.BytesIO()
    torch.save({"config": first.config.to_dict(), "weights": first.state_dict()}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    again = MCAN(MCANConfig.from_dict(saved["config"])).eval()
    assert again.config == first.config
    again.load_state_dict(saved["weights"])
    close(again(batch()).logits, first(batch()).logits)


def test_weights_of_one_kind_load_into_any_other():
    weights = model("continuous_softmax").state_dict()
    for kind in OUTPUTS:
        model(kind).load_state_dict(weights)


@every_kind
def test_autocast_to_bfloat16(kind):
    network = model(kind, dropout=0.0)
    exact = network(batch())
    with torch.autocast("cpu", torch.bfloat16):
        answer = network(batch())
        AnswerLoss("entmax15")(answer.logits, torch.rand(3, 4)).backward()
    assert answer.attention.discrete.dtype == torch.float32
    assert answer.logits.isfinite().all()
    assert all(p.grad.isfinite().all() for p in network.parameters())
    if kind != "multimodal_random":
        close(answer.logits.float(), exact.logits, atol=0.1, rtol=0.1)


@pytest.mark.parametrize("transform", ["softmax", "sparsemax", "entmax15", "normmax"])
def test_inner_attention_takes_any_map(transform):
    network = model(transform=transform).eval()
    answer = network(batch())
    assert answer.logits.isfinite().all()
    answer.logits.sum().backward()
    assert network.image.layers[0].own.part.query.weight.grad.isfinite().all()


def test_inner_map_has_options():
    close(
        model(transform="entmax", transform_options={"alpha": 1.5}).eval()(batch()).logits,
        model(transform="entmax15").eval()(batch()).logits,
    )


def test_embedding_to_start_from():
    rows_ = torch.randn(11, 6)
    network = MCAN(config(), rows_)
    assert torch.equal(network.question.embedding.weight, rows_) and network.question.embedding.weight.requires_grad
    with pytest.raises(ValueError, match=r"embedding must be \[words, word_dim\] = \(11, 6\), got shape \(11, 5\)"):
        MCAN(config(), rows_[:, :5])


# --- Learning


@pytest.mark.parametrize("kind", ["softmax", "continuous_sparsemax"])
def test_small_network_learns_a_question_about_a_position(kind):
    """Word 1 asks for the colour of the marked cell; to word 2 the answer is always the same."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    marked, colour = (torch.randint(k, (32,), generator=generator) for k in (16, 3))
    word = torch.randint(1, 3, (32,), generator=generator)
    features = 0.1 * torch.randn(32, 16, 7, generator=generator)
    features[torch.arange(32), marked, colour] += 2
    wanted = torch.where(word == 1, colour, 3)
    given = {"question": word[:, None], "features": features, "grid": (4, 4)}
    output = OutputConfig(kind, functions=4, variance=0.02)
    network = MCAN(config(output, hidden_dim=16, feedforward_dim=32, flat_dim=16, layers=1, dropout=0.0))
    loss = AnswerLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        value = loss(network(given).logits, torch.eye(4)[wanted])
        value.backward()
        optimizer.step()
    assert (network.eval()(given).logits.argmax(-1) == wanted).float().mean() > 0.95


# --- Pixels


def test_grid_cnn_keeps_positions():
    """A spot moves the features of its cell more than those of a far one, in the order of rows and columns."""
    cnn = GridCNN(6, (4, 4), widths=(8,), coordinates=False)
    image = torch.zeros(1, 3, 32, 32)
    spot = image.clone()
    spot[:, :, 18:22, 26:30] = 1  # row 2, column 3
    change = (cnn(spot) - cnn(image)).abs().sum(-1).unflatten(-1, (4, 4))[0]
    assert change.argmax() == 2 * 4 + 3


@pytest.mark.parametrize("size", [(14, 14), (56, 56), (112, 90), (9, 30), (100, 101)])
def test_grid_cnn_takes_any_size(size):
    assert GridCNN(6, (14, 14))(torch.rand(2, 3, *size)).shape == (2, 196, 6)


# --- Bad input


@pytest.mark.parametrize(
    "change, error, text",
    [
        ({"features": None}, ValueError, r"batch must hold features \(an image needs pixels=True\), got question"),
        ({"grid": (4, 4)}, ValueError, r"features must be \[B, 4 x 4, 7\].* got shape \(3, 20, 7\)"),
        ({"feature_mask": torch.ones(3, 20)}, ValueError, r"feature_mask must be bool \(3, 20\), got torch.float32"),
        ({"sizes": torch.ones(2, 2)}, ValueError, r"sizes must be \[3, 2\], rows and columns, got \(2, 2\)"),
        ({"question": torch.ones(3, 4)}, TypeError, "question must hold integer word indices, got torch.float32"),
        ({"question": torch.ones(3, 0, dtype=torch.long)}, ValueError, r"\[B, T\] with T >= 1, got shape \(3, 0\)"),
        ({"question": torch.full((3, 2), 11)}, IndexError, r"indices in \[0, 11\), the vocabulary, got 11"),
        ({"question": torch.ones(2, 2, dtype=torch.long)}, ValueError, "an image for each question, got 3 for 2"),
    ],
)
def test_bad_batch_is_named(change, error, text):
    with pytest.raises(error, match=text):
        model()({**batch(), **change})


def test_batch_without_question():
    with pytest.raises(ValueError, match="must hold a question, got features, grid"):
        model()({"features": torch.rand(1, 20, 7), "grid": (4, 5)})


def test_bad_image_is_named():
    with pytest.raises(TypeError, match=r"floating-point tensor with values in \[0, 1\], got torch.uint8"):
        GridCNN(6)(torch.zeros(1, 3, 9, 9, dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"\[B, 3, H, W\], got shape \(1, 1, 9, 9\)"):
        GridCNN(6)(torch.zeros(1, 1, 9, 9))
    with pytest.raises(ValueError, match=r"widths must be multiples of 8.* got \(5,\)"):
        GridCNN(6, widths=(5,))


def test_every_kind_is_tried():
    assert {output.kind for output in OUTPUTS.values()} == set(KINDS)


# --- Sharpness


def looks(first: str, then: str, sharp: float = 9.0, **changes):
    """A network whose scores are far apart, and one of another kind with the same weights."""
    torch.manual_seed(3)
    source, other = model(first), model(then, **changes)
    with torch.no_grad():
        source.output.score[-1].weight.mul_(sharp)
    other.load_state_dict(source.state_dict(), strict=False)
    return source.double().eval(), other.double()


def mean_entropy(weights):
    return torch.special.entr(weights.flatten(1)).sum(-1).mean()


@pytest.mark.parametrize("then", ["sparsemax", "entmax", "tvmax"])
@pytest.mark.parametrize("first", ["softmax", "continuous_softmax", "sparsemax"])
def test_matched_kind_is_as_sharp_as_the_one_before(first, then):
    source, other = looks(first, then)
    given = batch(((4, 5), (2, 3), (3, 5)), dtype=torch.float64)
    before = mean_entropy(source(given).attention.discrete)
    scale = other.train().match(given, source.output)
    assert other.training and scale == float(other.output.score_scale)
    torch.testing.assert_close(mean_entropy(other.eval()(given).attention.discrete), before, rtol=1e-9, atol=1e-9)
    back = model(first).double().eval()
    back.load_state_dict(other.state_dict(), strict=False)
    back.match(given, other.output)  # whose scale counts
    assert float(back.output.score_scale) == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("then", ["continuous_softmax", "continuous_sparsemax", "multimodal_selected"])
def test_density_of_softmax_weights_needs_no_scale(then):
    source, other = looks("softmax", then)
    assert other.match(batch(dtype=torch.float64), source.output) == 1.0


def test_matched_subsets_are_as_sharp_as_softmax_under_the_same_bound():
    source, other = looks("softmax", "k_subsets")
    given = batch(((4, 5), (1, 3), (3, 5)), dtype=torch.float64)  # the second has fewer than k = 5 cells
    other.match(given, source.output)
    p = source(given).attention.discrete.flatten(1)
    cap = given["feature_mask"].sum(-1, keepdim=True).clamp(max=5).double().reciprocal()
    wanted = mean_entropy(omegamax.constrained_softmax(p.log(), cap))
    torch.testing.assert_close(mean_entropy(other.eval()(given).attention.discrete), wanted, rtol=1e-9, atol=1e-9)


def test_weights_without_a_scale_have_the_scale_one():
    net = model("tvmax")
    net.output.score_scale.fill_(0.2)
    weights = net.state_dict()
    assert float(weights["output.score_scale"]) == pytest.approx(0.2)
    del weights["output.score_scale"]
    net.load_state_dict(weights)
    assert float(net.output.score_scale) == 1 and "output.score_scale" not in weights
