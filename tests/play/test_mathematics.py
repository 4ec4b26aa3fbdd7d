"""What the playground computes in the browser, against the library."""

import random

import pytest
import torch

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")

import omegamax
from omegamax import densities, mixtures
from omegamax.basis import grid_positions

F64 = torch.float64
MAPS = (
    *("softmax", "sparsemax", "entmax15", "entmax", "argmax", "normmax", "k_subsets", "sequential_k_subsets"),
    *("constrained_softmax", "constrained_sparsemax", "fusedmax", "graph_fusedmax", "oscarmax"),
)
BASES = ("sparsemax", "softmax", "entmax15")
SOLVE = """const [name, cases] = arguments, map = omegamax.mapOf(name);
return cases.map(([z, a, y]) => {
    const p = map.solve(z, a);
    return { p, omega: map.omega(p, a), jacobian: map.jacobian(z, p, a), loss: omegamax.fenchelYoung(map, z, p, y, a) };
});"""
DENSITY = """const [name, cases] = arguments;
return cases.map(([given, points]) => {
    const density = omegamax[name](...given);
    const losses = density.loss ? points.map((t) => density.loss(t)) : null;
    return { entropy: density.entropy, values: points.map((t) => density.prob(t)), losses };
});"""


def edges(graph, n):
    if graph == "star":
        pairs = [(0, i) for i in range(1, n)]
    elif graph == "complete":
        pairs = [(j, i) for i in range(n) for j in range(i)]
    else:
        pairs = [(i, i + 1) for i in range(n - 1)] + ([(0, n - 1)] if n > 2 else [])
    return torch.tensor(pairs).T


def draw(name, draws):
    """Return scores, parameters and a target in the domain of the map."""
    n = draws.randint(2, 12)
    z = draws.choice([0.3, 1.0, 3.0]) * torch.randn(
        n, dtype=F64, generator=torch.Generator().manual_seed(draws.getrandbits(30))
    )
    a, marked = {}, 1
    if name in ("fusedmax", "graph_fusedmax", "oscarmax"):
        a = {"strength": draws.choice([0.0, draws.uniform(0, 0.6)]), "base": draws.choice(BASES)}
    if name == "graph_fusedmax":
        a["graph"] = draws.choice(["ring", "star", "complete"])
    if name == "entmax":
        a = {"alpha": draws.choice([1.0, 2.0, draws.uniform(0.5, 4)])}
    if name == "normmax":
        a = {"alpha": draws.uniform(1.1, 10)}
    if name.endswith("k_subsets"):
        marked = draws.randint(1, n)
        a = {"k": marked, "at_most": draws.random() < 0.5}
    if name == "sequential_k_subsets":
        a["transition"] = draws.uniform(-2, 2)
    y = torch.zeros(n, dtype=F64)
    y[draws.sample(range(n), marked)] = 1.0
    if name.startswith("constrained"):
        a = {"upper": draws.uniform(1 / n, 1)}
        y = torch.full_like(y, 1 / n)
    if name == "constrained_sparsemax":
        a["lower"] = draws.uniform(0, 1 / n)
    return z, a, y


def omega_of(name, a, n):
    if name == "argmax":
        return omegamax.Tsallis(float("inf"))
    if name == "graph_fusedmax":
        return omegamax.GraphFused(a["base"], edges(a["graph"], n), a["strength"])
    if name in ("fusedmax", "oscarmax"):
        return {"fusedmax": omegamax.Fused, "oscarmax": omegamax.Oscar}[name](a["base"], a["strength"])
    if name.startswith("constrained"):
        return omegamax.Bounded(name.removeprefix("constrained_"), **a)
    return omegamax.get(name, **a)


def near(given, wanted, tolerance=1e-9):
    torch.testing.assert_close(torch.tensor(given, dtype=F64), wanted, rtol=tolerance, atol=tolerance)


def check_map(page, name, count, seed):
    draws = random.Random(seed)
    cases = [draw(name, draws) for _ in range(count)]
    given = [[z.tolist(), a, y.tolist()] for z, a, y in cases]
    for (z, a, y), found in zip(cases, page.driver.execute_script(SOLVE, name, given), strict=True):
        omega = omega_of(name, a, len(z))
        p = omega.argmax(z)
        near(found["p"], p)
        near(found["omega"], omega(p))
        near(found["loss"], omegamax.fenchel_young_loss(z, y, omega))
        near(found["jacobian"], torch.autograd.functional.jacobian(omega.argmax, z), 1e-7)


def test_all_maps_are_checked(page):
    assert sorted(page.driver.execute_script("return omegamax.MAPS.map((map) => map.name)")) == sorted(MAPS)


@pytest.mark.parametrize("name", MAPS)
def test_map_omega_loss_and_jacobian_are_those_of_the_library(page, name):
    check_map(page, name, 12, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MAPS)
def test_map_is_that_of_the_library_on_hundreds_of_inputs(page, name):
    check_map(page, name, 400, seed=1)


@pytest.mark.parametrize("name", MAPS)
def test_ties_and_one_score_far_ahead(page, name):
    a, n = draw(name, random.Random(3))[1], 5
    a |= {"k": 2} if "k" in a else {"upper": 0.5} if "upper" in a else {}
    a |= {"lower": 0.1} if "lower" in a else {}
    if name == "sequential_k_subsets":
        a["transition"] = 0.5
    rows = [[0.0] * n, [1.0, 1.0, 0.0, 0.0, 1.0], [900.0, 0.0, 0.0, -900.0, 1.0], [4.0, -4.0, 4.0, -4.0, 4.0]]
    y = torch.full((n,), 0.2, dtype=F64)
    if "k" in a:
        y = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0], dtype=F64)
    omega = omega_of(name, a, n)
    for z, each in zip(rows, page.driver.execute_script(SOLVE, name, [[z, a, y.tolist()] for z in rows]), strict=True):
        scores = torch.tensor(z, dtype=F64)
        near(each["p"], omega.argmax(scores))
        near(each["loss"], omegamax.fenchel_young_loss(scores, y, omega))


def check_tvmax(page, count, most):
    draws = random.Random(0)
    for _ in range(count):
        height, width = draws.randint(2, most), draws.randint(2, most)
        scale, generator = draws.choice([0.05, 0.3]), torch.Generator().manual_seed(draws.getrandbits(30))
        z = scale * torch.randn(height, width, dtype=F64, generator=generator)
        a = {"strength": draws.uniform(0, 0.1), "base": draws.choice(BASES), "height": height, "width": width}
        y = torch.full_like(z, 1 / z.numel())
        (found,) = page.driver.execute_script(SOLVE, "tvmax", [[z.flatten().tolist(), a, y.flatten().tolist()]])
        omega = omegamax.TotalVariation2d(a["base"], a["strength"])
        p = omega.argmax(z)
        near(found["p"], p.flatten())
        near(found["omega"], omega(p))
        near(found["loss"], omegamax.fenchel_young_loss(z, y, omega))
        if z.numel() <= 36:
            jacobian = torch.autograd.functional.jacobian(lambda x, o=omega: o.argmax(x), z)
            near(found["jacobian"], jacobian.reshape(z.numel(), z.numel()), 1e-7)


def test_tvmax_is_that_of_the_library(page):
    check_tvmax(page, 6, 6)


@pytest.mark.slow
def test_tvmax_is_that_of_the_library_on_many_images(page):
    check_tvmax(page, 60, 6)
    check_tvmax(page, 100, 20)


def check_densities(page, count):
    draws, generator = random.Random(0), torch.Generator().manual_seed(0)
    quadratic, linear, grids = [], [], []
    for _ in range(count):
        n, alpha = (
            draws.choice([1, 2]),
            draws.choice([1.0, 4 / 3, 1.5, 2.0, draws.uniform(0.7, 0.98), draws.uniform(1.02, 4)]),
        )
        mean, root = (
            torch.rand(n, dtype=F64, generator=generator),
            torch.randn(n, n, dtype=F64, generator=generator) / 5,
        )
        cov = root @ root.T + 0.01 * torch.eye(n, dtype=F64)
        points = torch.rand(6, n, dtype=F64, generator=generator)
        packed = cov[tuple(torch.triu_indices(n, n))].tolist()
        quadratic.append(
            ([mean.tolist(), packed, alpha], points, densities.BetaGaussian.from_moments(mean, cov, alpha))
        )
        narrow = densities.BetaLaplace.from_moments(mean[:1], cov[:1, :1], alpha)
        linear.append(([mean[:1].tolist(), packed[:1], alpha], points[:, :1], narrow))
        z = torch.randn(draws.randint(2, 12), dtype=F64, generator=generator)
        grid = densities.GridDensity(z, grid_positions(len(z), dtype=F64), torch.full_like(z, 1 / len(z)), alpha)
        grids.append(([z.tolist(), alpha], points[:, :1], grid))
    for name, cases in (("betaGaussian", quadratic), ("betaLaplace", linear), ("gridDensity", grids)):
        found = page.driver.execute_script(DENSITY, name, [[given, points.tolist()] for given, points, _ in cases])
        for (_, points, density), each in zip(cases, found, strict=True):
            near(each["values"], density.prob(points))
            near(each["entropy"], density.tsallis_entropy())
            if name != "gridDensity":
                near(each["losses"], densities.fenchel_young_loss(density, points))


def test_densities_are_those_of_the_library(page):
    check_densities(page, 20)


@pytest.mark.slow
def test_densities_are_those_of_the_library_on_hundreds_of_inputs(page):
    check_densities(page, 500)


def check_mixtures(page, count):
    draws = random.Random(0)
    criteria = {"BIC": mixtures.BIC(), "AIC": mixtures.AIC(), "Linear": mixtures.Linear(0.3)}
    for _ in range(count):
        size = draws.choice([[draws.randint(4, 12)], [draws.randint(4, 20), draws.randint(4, 20)]])
        x, generator = grid_positions(tuple(size), dtype=F64), torch.Generator().manual_seed(draws.getrandbits(30))
        scores = draws.choice([0.1, 1.0, 2.0]) * torch.randn(len(x), dtype=F64, generator=generator)
        w = omegamax.get(draws.choice(BASES)).argmax(scores)
        components, iterations, name = draws.randint(1, 5), draws.randint(0, 20), draws.choice([*criteria])
        state = page.driver.execute_script(
            "return omegamax.weightedEm(...arguments[0]).state", [size, w.tolist(), components, iterations]
        )
        fitted = mixtures.weighted_em(x, w, components, iterations)
        near([c["weight"] for c in state], fitted.weights)
        near([c["mean"] for c in state], fitted.components.mean)
        cov = fitted.components.covariance_matrix[(..., *torch.triu_indices(len(size), len(size)))]
        near([c["covariance"] for c in state], cov)
        chosen = page.driver.execute_script(
            "const { scores, state } = omegamax.selectComponents(...arguments[0]);"
            "return [scores, state.filter((c) => c.weight > 0).length]",
            [size, w.tolist(), 4, iterations, name, 0.3],
        )
        wanted = mixtures.select_components(x, w, 4, criteria[name], 1, iterations=iterations, init="split")
        near(chosen[0], wanted.scores)
        assert chosen[1] == int(wanted.component_count)


def test_mixtures_are_those_of_the_library(page):
    check_mixtures(page, 6)


@pytest.mark.slow
def test_mixtures_are_those_of_the_library_on_hundreds_of_inputs(page):
    check_mixtures(page, 200)
