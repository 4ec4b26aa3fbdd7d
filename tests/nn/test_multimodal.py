"""Multimodal attention against the published algorithm, its parts, one density, and the example alone."""

import copy

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck

from omegamax.basis import GaussianRBF, RidgeFit, grid_positions
from omegamax.densities import BetaGaussian, Gaussian, Mixture
from omegamax.mixtures import BIC, Linear, SelectedMixture, select_components, weighted_em
from omegamax.nn import Alpha, ContinuousAttention, MultimodalAttention

F64 = torch.float64
LINE = GaussianRBF.grid(8, 1, variance=0.01, dtype=F64)
PLANE = GaussianRBF.grid(4, 2, variance=0.04, dtype=F64)
SIZE = (6, 6)
GRID = grid_positions(SIZE, dtype=F64)
CELL = 1 / (12 * 36)
SHORT = Linear(0.3)  # few cells: BIC would not find a second peak
MODES = ["fixed", "random", "test", "selected"]


def bumps(*counts, places=GRID, width=0.06):
    """Weights with one, two, ... far peaks."""
    peaks = torch.tensor([[0.2, 0.2], [0.8, 0.8], [0.8, 0.15]], dtype=F64)
    near = (-(torch.cdist(places, peaks).square()) / (2 * width**2)).exp() + 1e-9
    return torch.stack([near[:, :k].sum(-1) for k in counts])


def noise(*shape, grad=False):
    return torch.randn(*shape, dtype=F64).softmax(-1).requires_grad_(grad)


def assert_same(p, q, **within):
    for a, b in [
        (p.weights, q.weights),
        (p.components.mean, q.components.mean),
        (p.components.covariance_matrix, q.components.covariance_matrix),
    ]:
        torch.testing.assert_close(a, b, **within)


# --- The context


def published(values, w, places, iterations, penalty=0.01):
    """Alg. 1 for one example, two Gaussians that start as the halves of the image, in numpy from end to end."""

    def normal(d, c):  # d [..., 2]
        q = np.einsum("...i,ij,...j->...", d, np.linalg.inv(c), d)
        return np.exp(-q / 2) / np.sqrt(np.linalg.det(2 * np.pi * c))

    def parts(gamma):
        pi = w @ gamma
        mu = (gamma * w[:, None]).T @ places / pi[:, None]
        cov = [
            sum(w[i] * gamma[i, k] * np.outer(x - mu[k], x - mu[k]) for i, x in enumerate(places)) / pi[k]
            for k in range(2)
        ]
        return pi, mu, cov

    w = w / w.sum()
    pi, mu, cov = parts(np.stack([places[:, 1] < 0.5, places[:, 1] >= 0.5], -1).astype(float))
    for _ in range(iterations):
        joint = np.stack([pi[k] * normal(places - mu[k], cov[k]) for k in range(2)], -1)  # (8)
        pi, mu, cov = parts(joint / joint.sum(-1, keepdims=True))  # (9) to (11)
    centers, width = PLANE.centers.numpy(), PLANE.variance[0].item() * np.eye(2)
    rows = np.stack([normal(places - c, width) for c in centers], -1)
    b = np.linalg.solve(rows.T @ rows + penalty * np.eye(len(centers)), rows.T @ values)
    contexts = [normal(mu[k] - centers, cov[k] + width) @ b for k in range(2)]  # (3)
    return pi[0] * contexts[0] + pi[1] * contexts[1]  # (5)


@pytest.mark.parametrize("iterations", [0, 4])
def test_published_algorithm(iterations):
    attend = MultimodalAttention(PLANE, 2, iterations=iterations, positions=SIZE, floor=0.0)
    values, w = torch.randn(3, 36, 4, dtype=F64), noise(3, 36)
    context, _ = attend(values, w)
    for i in range(3):
        wanted = published(values[i].numpy(), w[i].numpy(), GRID.numpy(), iterations)
        np.testing.assert_allclose(context[i].numpy(), wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_is_composed_of_its_parts(alpha):
    attend = MultimodalAttention(PLANE, 3, alpha, iterations=(2, 6), positions=SIZE)
    values, w = torch.randn(2, 36, 4, dtype=F64), noise(2, 36)
    b = RidgeFit(PLANE, SIZE)(values)
    for iterations, layer in [(2, attend), (6, copy.deepcopy(attend).eval())]:
        context, p = layer(values, w)
        wanted = weighted_em(GRID, w, 3, iterations, floor=0.0, spread=CELL, alpha=alpha)
        assert_same(p, wanted, rtol=1e-9, atol=1e-12)
        assert type(p.components) is (Gaussian if alpha == 1 else BetaGaussian)
        each = wanted.components.expect(PLANE) @ b  # one B for all
        torch.testing.assert_close(context, (wanted.weights.unsqueeze(-2) @ each).squeeze(-2), rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(layer.attend(b, layer.match(w)), context, rtol=1e-8, atol=1e-10)


def test_selection_is_composed_of_its_parts():
    attend = MultimodalAttention(PLANE, 3, components="test", criterion=SHORT, positions=SIZE, restarts=2).eval()
    values, w = torch.randn(3, 36, 4, dtype=F64), bumps(1, 2, 3)
    context, p = attend(values, w)
    wanted = select_components(
        GRID,
        w,
        3,
        SHORT,
        2,
        init="split",
        floor=0.0,
        spread=CELL,
        generator=torch.Generator().manual_seed(0),
    )
    assert isinstance(p, SelectedMixture)
    assert p.component_count.tolist() == wanted.component_count.tolist() == [1, 2, 3]
    torch.testing.assert_close(p.scores, wanted.scores)
    torch.testing.assert_close(context, attend.attend(attend.fit(values), wanted), rtol=1e-8, atol=1e-10)


def test_no_component_is_thinner_than_a_cell():
    for floor, least in [(None, CELL), (0.01, 0.01)]:
        p = MultimodalAttention(PLANE, 4, positions=SIZE, floor=floor).match(noise(5, 36) ** 8)
        alive = p.components.covariance_matrix[p.weights > 0]
        assert bool((torch.linalg.eigvalsh(alive) > least * (1 - 1e-9)).all())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("alpha", [1.0, 2.0, torch.tensor([1.0, 1.5], dtype=F64)])
def test_one_component_is_continuous_attention(mode, alpha):
    settings = {"positions": SIZE, "combined": True}
    many = MultimodalAttention(PLANE, 1, alpha, components=mode, **settings)
    one = ContinuousAttention(PLANE, alpha, **settings)
    values, w, mask = torch.randn(2, 36, 3, dtype=F64), noise(2, 36), torch.rand(2, 36) < 0.7
    for layer in (many.train(), copy.deepcopy(many).eval()):
        context, p = layer(values, w, mask=mask)
        wanted, density = one(values, w, mask=mask)
        torch.testing.assert_close(context, wanted, rtol=1e-13, atol=1e-14)
        assert isinstance(p, Mixture) and p.weights.eq(1).all() and p.batch_shape == (2,)
        assert torch.equal(p.components.mean.squeeze(-2), density.mean)
        assert torch.equal(p.components.scale.squeeze(-3), density.scale)


# --- Train and eval


def test_fixed_has_as_many_components_always():
    attend = MultimodalAttention(PLANE, 3, positions=SIZE)
    assert attend.match(noise(2, 36)).weights.shape == attend.eval().match(noise(2, 36)).weights.shape == (2, 3)


def test_random_draws_each_call_and_selects_in_evaluation():
    def counts(generator):
        attend = MultimodalAttention(LINE, 3, components="random", iterations=1, generator=generator)
        return [attend.match(torch.ones(9, dtype=F64)).weights.shape[-1] for _ in range(16)]

    state = torch.get_rng_state()
    drawn = counts(torch.Generator().manual_seed(3))
    assert set(drawn) == {1, 2, 3} and drawn == counts(torch.Generator().manual_seed(3))
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(8)
    first = counts(None)
    torch.manual_seed(8)
    assert counts(None) == first and len(set(first)) > 1
    attend = MultimodalAttention(PLANE, 3, components="random", criterion=SHORT, positions=SIZE).eval()
    assert attend.match(bumps(1, 2, 3)).component_count.tolist() == [1, 2, 3]


def test_test_is_unimodal_while_training():
    attend = MultimodalAttention(PLANE, 3, components="test", criterion=SHORT, positions=SIZE)
    one = ContinuousAttention(PLANE, positions=SIZE)
    values, w = torch.randn(2, 36, 3, dtype=F64), bumps(2, 3)
    torch.testing.assert_close(attend(values, w)[0], one(values, w)[0], rtol=1e-13, atol=1e-14)
    context, p = attend.eval()(values, w)
    assert p.component_count.tolist() == [2, 3]
    assert not torch.allclose(context, one(values, w)[0])


def test_selected_selects_always():
    attend = MultimodalAttention(PLANE, 3, components="selected", criterion=SHORT, positions=SIZE)
    for layer in (attend, attend.eval()):
        assert layer.match(bumps(3, 1)).component_count.tolist() == [3, 1]


def test_evaluation_repeats_itself_and_leaves_the_global_generator_alone():
    attend = MultimodalAttention(LINE, 3, components="test", init="random").eval()
    w, state = noise(6, 12), torch.get_rng_state()
    p, q = attend.match(w), attend.match(w)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(p.weights, q.weights) and torch.equal(p.components.mean, q.components.mean)
    given = MultimodalAttention(LINE, 3, init="random", generator=torch.Generator().manual_seed(1))
    p, q = given.match(w), given.match(w)
    assert not torch.equal(p.weights, q.weights)
    assert torch.equal(state, torch.get_rng_state())


def test_adds_no_parameters_and_holds_no_state():
    for mode in MODES:
        attend = MultimodalAttention(PLANE, 4, components=mode, positions=SIZE)
        assert not list(attend.parameters()) and not attend.state_dict()
        attend.load_state_dict(ContinuousAttention(PLANE, positions=SIZE).state_dict())
    assert "components='selected'" in repr(attend)
    with_generator = MultimodalAttention(LINE, 2, generator=torch.Generator().manual_seed(2))
    assert torch.equal(copy.deepcopy(with_generator).match(noise(9)).weights > 0, torch.tensor([True, True]))


# --- Gradients


@pytest.mark.parametrize("alpha", [1.0, 1.5])
def test_gradients_reach_values_and_weights(alpha):
    attend = MultimodalAttention(LINE, 3, alpha, iterations=3, combined=True)
    values = torch.randn(2, 7, 1, dtype=F64, requires_grad=True)
    assert gradcheck(lambda v, w: attend(v, w)[0], (values, noise(2, 7, grad=True)))


def test_gradients_in_the_plane_through_a_selection():
    attend = MultimodalAttention(PLANE, 3, components="test", criterion=SHORT, positions=SIZE).eval()
    values, w = torch.randn(2, 36, 1, dtype=F64), (bumps(2, 3) + 1e-4).requires_grad_()
    assert attend.match(w).component_count.tolist() == [2, 3]
    assert gradcheck(lambda w: attend(values, w)[0], (w,), fast_mode=True)


def test_gradients_reach_positions_and_alpha():
    attend = MultimodalAttention(LINE, 2, 1.5, learnable=True, iterations=2).double()
    values, places = torch.randn(2, 7, 2, dtype=F64), torch.rand(2, 7, 1, dtype=F64, requires_grad=True)
    w = noise(2, 7)
    raw = attend.alpha.raw.detach().clone().requires_grad_()

    def through(x, raw):
        return torch.func.functional_call(attend, {"alpha.raw": raw}, (values, w, x))[0]

    assert gradcheck(through, (places, raw))


# --- Batches whose examples differ


@pytest.mark.parametrize("mode", ["fixed", "test"])
def test_lengths_are_the_example_alone(mode):
    attend = MultimodalAttention(LINE, 2, components=mode, restarts=1).eval()
    values, w = torch.randn(3, 12, 2, dtype=F64), noise(3, 12)
    lengths = [12, 7, 4]
    values[1, 7:] = float("nan")
    context, p = attend(values, w, lengths=torch.tensor(lengths))
    for i, k in enumerate(lengths):
        alone, q = attend(values[i, :k], w[i, :k])
        torch.testing.assert_close(context[i], alone, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(p.weights[i], q.weights, rtol=1e-9, atol=1e-12)


def test_sizes_of_images_are_the_image_alone():
    attend = MultimodalAttention(PLANE, 2, positions=(4, 4))
    values, w, sizes = torch.randn(2, 16, 2, dtype=F64), noise(2, 16), [(4, 4), (3, 5)]
    context, _ = attend(values, w, lengths=torch.tensor(sizes))
    for i, (h, k) in enumerate(sizes):
        alone, _ = MultimodalAttention(PLANE, 2, positions=(h, k))(values[i, : h * k], w[i, : h * k])
        torch.testing.assert_close(context[i], alone, rtol=1e-9, atol=1e-11)


def test_masked_and_irregular_positions_equal_the_kept_ones_alone():
    attend = MultimodalAttention(PLANE, 2)
    values, w, places = torch.randn(2, 14, 2, dtype=F64), noise(2, 14), torch.rand(2, 14, 2, dtype=F64)
    mask = torch.rand(2, 14) < 0.7
    mask[:, :4] = True
    values[~mask], places[~mask] = float("nan"), float("inf")
    context, p = attend(values, w, places, mask=mask)
    for i in range(2):
        alone, q = attend(values[i][mask[i]], w[i][mask[i]], places[i][mask[i]])
        torch.testing.assert_close(context[i], alone, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(p.components.mean[i], q.components.mean, rtol=1e-9, atol=1e-12)


def test_queries_share_values_and_alpha_may_differ():
    values, w = torch.randn(2, 1, 9, 3, dtype=F64), noise(2, 4, 9)
    alphas = torch.tensor([1.0, 1.2, 1.5, 2.0], dtype=F64)
    context, p = MultimodalAttention(LINE, 2, alphas)(values, w)
    assert context.shape == (2, 4, 3) and p.batch_shape == (2, 4)
    for q, alpha in enumerate(alphas.tolist()):
        alone, _ = MultimodalAttention(LINE, 2, alpha)(values[:, 0], w[:, q])
        torch.testing.assert_close(context[:, q], alone, rtol=1e-8, atol=1e-10)
    # An alpha for more examples than there are weights; and one for each head.
    wide, _ = MultimodalAttention(LINE, 2, alphas)(values[0, 0], w[0, 0])
    assert wide.shape == (4, 3)
    heads = Alpha(torch.tensor([1.1, 1.9]), (1.0, 2.0), per=2)
    context, _ = MultimodalAttention(LINE, 2, heads)(values.unsqueeze(1), noise(2, 2, 4, 9))
    assert context.shape == (2, 2, 4, 3)


# --- Hostile input


@pytest.mark.parametrize("mode", MODES)
def test_rows_without_weight(mode):
    attend = MultimodalAttention(PLANE, 2, components=mode, iterations=3, restarts=2, positions=SIZE)
    for layer in (attend.train(), attend.eval()):
        w = torch.zeros(4, 36, dtype=F64)
        w[1, 5] = 1.0  # one place
        w[2, [0, 35]] = 0.5  # two
        w[3] = noise(36)
        w.requires_grad_()
        mask = torch.ones(4, 36, dtype=torch.bool)
        mask[3] = False
        values = torch.randn(4, 36, 2, dtype=F64, requires_grad=True)
        context, p = layer(values, w, mask=mask)
        assert context.isfinite().all() and (context[[0, 3]] == 0).all()
        assert torch.allclose(p.weights.sum(-1), torch.ones(4, dtype=F64))
        torch.testing.assert_close(p.mean[1], GRID[5])
        context.square().sum().backward()
        assert w.grad.isfinite().all() and values.grad.isfinite().all()
        assert (w.grad[[0, 3]] == 0).all() and (values.grad[[0, 3]] == 0).all()


def test_nan_stays_in_its_row_and_a_single_value_is_itself():
    attend = MultimodalAttention(LINE, 2)
    w = noise(2, 9)
    w[0, 3] = float("nan")
    context, _ = attend(torch.randn(2, 9, 2, dtype=F64), w)
    assert context[0].isnan().all() and context[1].isfinite().all()
    lonely, p = attend(torch.randn(2, 1, 2, dtype=F64), torch.rand(2, 1, dtype=F64))
    one, density = ContinuousAttention(LINE)(torch.ones(1, 2, dtype=F64), torch.ones(1, dtype=F64))
    assert lonely.isfinite().all() and one.isfinite().all()
    torch.testing.assert_close(p.covariance_matrix[0], density.covariance_matrix)


@pytest.mark.parametrize("dtype, atol", [(torch.float32, 2e-4), (torch.bfloat16, 0.3)])
def test_other_dtypes(dtype, atol):
    values, w = torch.randn(2, 36, 3, dtype=F64), bumps(2, 3)
    attend = MultimodalAttention(GaussianRBF.grid(4, 2, variance=0.04), 3, positions=SIZE)
    narrow, p = attend(values.to(dtype), w.to(dtype))
    wide, _ = MultimodalAttention(PLANE, 3, positions=SIZE)(values, w)
    assert narrow.dtype == dtype and p.weights.dtype == torch.float32
    torch.testing.assert_close(narrow.to(F64), wide, rtol=0, atol=atol)
    with torch.autocast("cpu", torch.bfloat16):
        cast, _ = attend(values.float(), w.float())
    torch.testing.assert_close(cast.to(F64), wide, rtol=0, atol=2e-4)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"max_components": 0}, "max_components must be an integer >= 1"),
        ({"max_components": 2.5}, "max_components must be an integer"),
        ({"components": "some"}, "components must be one of"),
        ({"init": "halves"}, "init must be one of"),
        ({"distance": "far"}, "distance must be one of"),
        ({"iterations": -1}, "iterations must be an integer >= 0"),
        ({"iterations": (1, 2, 3)}, "iterations must be an int or two"),
        ({"restarts": 0}, "restarts must be an integer >= 1"),
        ({"criterion": BIC}, "criterion must be a Criterion"),
        ({"generator": 3}, "generator must be a torch.Generator"),
        ({"floor": -1.0}, "MultimodalAttention: floor must be"),
        ({"alpha": 0.2}, "alpha must be"),
    ],
)
def test_refusals(settings, message):
    with pytest.raises((TypeError, ValueError), match=message):
        MultimodalAttention(LINE, **{"max_components": 2, **settings})


def test_refusals_of_a_call():
    attend, values = MultimodalAttention(LINE, 2), torch.randn(2, 9, 3)
    for w, message in [
        (None, "weights must be"),
        (-torch.ones(9), "weights must be >= 0"),
        (torch.ones(8), r"weights must be \[\*, 9\]"),
        (torch.ones(3, 9), "batches must broadcast"),
    ]:
        with pytest.raises((TypeError, ValueError), match="MultimodalAttention: " + message):
            attend(values, w)


def test_sparse_mixing_takes_as_many_components_as_each_example_needs():
    x = grid_positions((14, 14))
    near = (-80 * torch.cdist(x, torch.tensor([[0.2, 0.3], [0.8, 0.7]])).square()).exp()
    weights = torch.stack([near[:, 0], near.sum(-1)])
    attend = MultimodalAttention(GaussianRBF.grid(5, 2, 0.01), 4, mixing="sparsemax", iterations=50, positions=(14, 14))
    density = attend(torch.randn(2, 196, 3), weights)[1]
    assert density.component_count.tolist() == [1, 2]
    wanted = weighted_em(x, weights, 4, 50, mixing="sparsemax", spread=1 / (12 * 14**2), floor=0.0)
    torch.testing.assert_close(density.weights, wanted.weights)
    with pytest.raises(ValueError, match="mixing selects by itself and goes with components='fixed', got 'random'"):
        MultimodalAttention(GaussianRBF.grid(5, 2, 0.01), 4, mixing="sparsemax", components="random")


def test_mixture_is_predicted_from_a_query():
    torch.manual_seed(0)
    attend = MultimodalAttention(PLANE, 3, 1.5, query_dim=5, positions=SIZE).double()
    query, values = torch.randn(4, 5, dtype=F64), torch.randn(4, 36, 2, dtype=F64)
    context, p = attend(values, query=query)
    assert attend.query.out_features == 3 * (1 + 5) and p.weights.shape == (4, 3) and p.components.batch_shape == (4, 3)
    torch.testing.assert_close(p.weights.sum(-1), torch.ones(4, dtype=F64))
    # Each component is what continuous attention predicts from the same numbers.
    one = ContinuousAttention(PLANE, 1.5, query_dim=5, positions=SIZE).double()
    total = torch.zeros_like(context)
    for k in range(3):
        with torch.no_grad():
            one.query.weight.copy_(attend.query.weight.unflatten(0, (3, 6))[k, 1:])
            one.query.bias.copy_(attend.query.bias.unflatten(0, (3, 6))[k, 1:])
        part, density = one(values, query=query)
        torch.testing.assert_close(density.loc, p.components.loc[:, k])
        total = total + p.weights[:, k, None] * part
    torch.testing.assert_close(context, total, rtol=1e-9, atol=1e-9)
    parameters = [attend.query.weight, attend.query.bias]

    def run(query, weight, bias):
        head = {"query.weight": weight, "query.bias": bias}
        return torch.func.functional_call(attend, head, (values,), {"query": query})[0]

    assert gradcheck(run, (query.requires_grad_(), *(each.detach().requires_grad_() for each in parameters)))


def test_query_takes_the_place_of_weights():
    with pytest.raises(ValueError, match="query_dim goes with components='fixed' and nothing fitted, got"):
        MultimodalAttention(PLANE, 3, query_dim=5, components="random")
    with pytest.raises(ValueError, match="a query needs query_dim at construction, got none"):
        MultimodalAttention(PLANE, 3).predict(torch.randn(4, 5))
    attend = MultimodalAttention(PLANE, 3, query_dim=5, positions=SIZE)
    with pytest.raises(ValueError, match="from weights or from a query, got both"):
        attend(torch.randn(4, 36, 2), torch.rand(4, 36), query=torch.randn(4, 5))
