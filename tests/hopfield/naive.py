"""Memories written out again in NumPy, one query and one pattern at a time, by bisection and enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np


def bisect(f, low, high):
    """Where the falling function f is zero."""
    for _ in range(200):
        middle = (low + high) / 2
        if f(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def softmax(z):
    e = [math.exp(x - max(z)) for x in z]
    p = np.array(e) / sum(e)
    return p, sum(x * math.log(x) for x in p if x > 0)


def entmax(z, alpha):
    """p_i = [(alpha - 1) (z_i - t)]_+^(1 / (alpha - 1))."""

    def at(t):
        return np.array([max((alpha - 1) * (x - t), 0.0) ** (1 / (alpha - 1)) for x in z])

    p = at(bisect(lambda t: at(t).sum() - 1, max(z) - 1 / (alpha - 1), max(z)))
    p = p / p.sum()
    return p, (sum(x**alpha for x in p) - 1) / (alpha * (alpha - 1))


def normmax(z, alpha):
    """p_i proportional to [z_i - t]_+^(1 / (alpha - 1)), where the [z_i - t]_+ have dual norm 1."""
    dual = alpha / (alpha - 1)
    t = bisect(lambda t: sum(max(x - t, 0.0) ** dual for x in z) - 1, max(z) - 1, max(z))
    p = np.array([max(x - t, 0.0) ** (1 / (alpha - 1)) for x in z])
    p = p / p.sum()
    return p, sum(x**alpha for x in p) ** (1 / alpha) - 1


def k_subsets(z, k):
    def at(t):
        return np.clip(np.array(z) - t, 0, 1)

    p = at(bisect(lambda t: at(t).sum() - k, min(z) - 2, max(z)))
    return p, sum(x**2 for x in p) / 2


def sequential_k_subsets(z, k, transition):
    """The best mixture of all sequences with k ones; its pairs of neighbours score too."""
    sets = np.array([s for s in itertools.product((0.0, 1.0), repeat=len(z)) if sum(s) == k])
    pairs = (sets[:, 1:] * sets[:, :-1]).sum(1)
    scores = sets @ np.array(z) + transition * pairs
    w = _simplex_qp(sets @ sets.T, scores)
    p = sets.T @ w
    return p, 0.5 * (p**2).sum() - transition * (pairs @ w)


def _simplex_qp(gram, scores):
    """min 1/2 w'Gw - s'w on the simplex: the first support whose optimum no other entry could better."""
    n = len(scores)
    for size in range(1, n + 1):
        for support in map(list, itertools.combinations(range(n), size)):
            system = np.zeros((size + 1, size + 1))
            system[:size, :size] = gram[np.ix_(support, support)]
            system[size, :size] = system[:size, size] = 1
            solution = np.linalg.lstsq(system, np.append(scores[support], 1), rcond=1e-12)[0]
            w = np.zeros(n)
            w[support] = solution[:size]
            if w.min() < -1e-12 or abs(w.sum() - 1) > 1e-12:
                continue
            gains = scores - gram @ w
            if gains.max() <= gains[support].min() + 1e-11:
                return w
    raise AssertionError("no optimum")


def power(z, degree, rectified):
    keep = [max(x, 0.0) if rectified else x for x in z]
    return np.array([math.copysign(abs(x) ** (degree - 1), x) if x else 0.0 for x in keep]), None


def conjugate(kind, z, *parameters):
    """The map at z, and the value of the conjugate there."""
    if kind == "power":
        degree, rectified = parameters
        return power(z, degree, rectified)[0], sum((max(x, 0.0) if rectified else abs(x)) ** degree / degree for x in z)
    if kind == "exponential":
        return np.array([math.exp(x) for x in z]), sum(math.exp(x) for x in z)
    maps = {
        "softmax": softmax,
        "entmax": entmax,
        "normmax": normmax,
        "k_subsets": k_subsets,
        "sequential_k_subsets": sequential_k_subsets,
    }
    p, value = maps[kind](z, *parameters)
    return p, float(np.dot(p, z)) - value


def psi(kind, q):
    size = math.sqrt(sum(x * x for x in q))
    if kind == "identity":
        return size**2 / 2
    if kind == "l2_norm":
        return 0.0 if size <= 1 + 1e-9 else math.inf
    if kind == "layer_norm":
        return 0.0 if abs(sum(q)) < 1e-9 and size <= math.sqrt(len(q)) + 1e-9 else math.inf
    return 0.0 if max(abs(x) for x in q) <= 1 + 1e-9 else math.inf


def after(kind, x):
    if kind == "identity":
        return x
    if kind == "l2_norm":
        return x / math.sqrt(sum(v * v for v in x))
    if kind == "layer_norm":
        return (x - x.mean()) / x.std()
    return np.array([1.0 if v >= 0 else -1.0 for v in x])


def energy(patterns, q, beta, post, kind, *parameters):
    z = [beta * sum(a * b for a, b in zip(x, q, strict=True)) for x in patterns]
    return -conjugate(kind, z, *parameters)[1] / beta + psi(post, q)


def step(patterns, q, beta, post, kind, *parameters):
    z = [beta * sum(a * b for a, b in zip(x, q, strict=True)) for x in patterns]
    p = conjugate(kind, z, *parameters)[0]
    return after(post, sum(weight * np.array(x) for weight, x in zip(p, patterns, strict=True)))
