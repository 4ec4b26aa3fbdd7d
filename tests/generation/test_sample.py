"""Samples against the probabilities of all sequences; states; the map alone, and in another library's loop."""

import math
import re
from collections import Counter, namedtuple

import pytest
import scipy.stats
import torch

import omegamax
from generation.cases import Tree, everything
from omegamax.generation import LogitsProcessor, beam_search, greedy, log_probabilities, sample, support


@pytest.mark.parametrize("omega", ["softmax", "entmax15", "sparsemax", omegamax.NormEntropy(2.0)])
def test_samples_have_the_probabilities_of_the_model(omega):
    options = dict(eos=2, max_length=3, min_length=1, temperature=0.8)
    wanted = everything(Tree(3, seed=5), [1], omega, **options)
    table = {x: 0 for x in wanted}

    model, rows = Tree(3, seed=5), {}

    def step(tokens):
        for t in {tuple(t) for t in tokens.tolist()} - set(rows):
            rows[t] = model.scores(list(t))
        return torch.tensor([rows[tuple(t)] for t in tokens.tolist()], dtype=torch.float64)

    draws = 20000
    drawn = sample(step, 1, samples=draws, omega=omega, generator=torch.Generator().manual_seed(3), **options)
    lists = [tuple(x) for x in drawn.lists()[0]]
    table.update(Counter(lists))
    assert set(table) == set(wanted)  # what has no probability is never drawn
    expected = [draws * p / sum(wanted.values()) for p in wanted.values()]
    assert len(wanted) == 1 or scipy.stats.chisquare([table[x] for x in wanted], expected).pvalue > 1e-3
    logs = torch.tensor([wanted[x] for x in lists], dtype=torch.float64).log()
    assert (drawn.log_probs[0] - logs).abs().max() <= 1e-12
    assert drawn.finished[0].tolist() == [x[-1] == 2 for x in lists]


def test_rare_tokens_are_drawn_as_often_as_they_should():
    p = torch.tensor([0.999, 0.001, 0.0])
    drawn = sample(lambda t: p.expand(len(t), 3), 0, samples=200000, omega="sparsemax", max_length=1)
    counts = drawn.tokens.flatten().bincount(minlength=3)
    assert counts[2] == 0 and abs(int(counts[1]) - 200) <= 70


def test_generator_decides():
    def draw(seed):
        options = dict(samples=4, eos=0, max_length=6, omega="softmax")
        generator = torch.Generator().manual_seed(seed)
        return sample(Tree(5, seed=1), torch.tensor([[1], [2]]), generator=generator, **options)

    first, again, other = draw(0), draw(0), draw(1)
    assert torch.equal(first.tokens, again.tokens) and torch.equal(first.log_probs, again.log_probs)
    assert first.lists() != other.lists()
    assert first.tokens.shape[:2] == (2, 4) and first.log_probs.shape == (2, 4)


def test_sampling_ends_with_its_last_row():
    table = torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]])
    sizes = []

    def step(tokens):
        sizes.append(len(tokens))
        return table[tokens[:, -1]]

    drawn = sample(step, torch.tensor([[0], [1]]), samples=2, eos=0, max_length=50, pad=-1)
    assert sizes == [4, 2] and drawn.lists() == [[[0], [0]], [[2, 0], [2, 0]]]
    assert drawn.tokens[0].tolist() == [[0, -1], [0, -1]] and drawn.finished.all()


def test_no_end_token():
    drawn = sample(Tree(3, seed=2), 0, max_length=7)
    assert drawn.tokens.shape == (1, 1, 7) and not drawn.finished.any()


def test_sampling_errors():
    def step(tokens):
        return torch.zeros(len(tokens), 1)

    with pytest.raises(
        ValueError, match=re.escape("sample: step must leave a token to every sequence, got none after [0]")
    ):
        sample(step, 0, eos=0, min_length=1)
    with pytest.raises(ValueError, match=re.escape("sample: samples must be at least 1, got 0")):
        sample(step, 0, samples=0)
    with pytest.raises(ValueError, match=re.escape("sample: step must return scores that are finite or -inf, got NaN")):
        sample(lambda t: torch.full((len(t), 2), math.nan), 0)


# --- States


Cache = namedtuple("Cache", "sums steps")


def remembering(tokens, state):
    """Scores that depend on the row of the batch and on all tokens, which only the state remembers."""
    new = Cache(state["cache"].sums + (tokens[:, -1] + 1) * 7 ** state["cache"].steps, state["cache"].steps + 1)
    key = new.sums * 31 + state["source"][0]
    scores = torch.sin(key[:, None].double() * torch.tensor([1.3, 2.1, 0.7, 1.9], dtype=torch.float64)) * 2
    return scores, {**state, "cache": new}


def initial(batch):
    source = [torch.arange(batch) * 5 + 1, None]
    return {"cache": Cache(torch.zeros(batch, dtype=torch.long), torch.tensor(0)), "source": source}


@pytest.mark.parametrize("omega", ["softmax", "sparsemax"])
@pytest.mark.parametrize("beam", [1, 3, 40])
def test_state_follows_its_sequence(omega, beam):
    starts = torch.tensor([[1], [2], [1]])

    class Replayed:
        """The same model without a state, from the tokens of one row."""

        def __init__(self, row):
            self.row = row

        def scores(self, tokens):
            state = {"cache": Cache(torch.zeros(1, dtype=torch.long), torch.tensor(0))}
            state["source"] = [torch.tensor([self.row * 5 + 1]), None]
            for n in range(1, len(tokens) + 1):
                z, state = remembering(torch.tensor([tokens[:n]]), state)
            return z[0].tolist()

        def __call__(self, tokens):
            return torch.tensor([self.scores(t) for t in tokens.tolist()], dtype=torch.float64)

    options = dict(beam=beam, omega=omega, eos=3, max_length=4)
    found = beam_search(remembering, starts, state=initial(3), **options)
    for row in range(3):
        alone = beam_search(Replayed(row), starts[row : row + 1], **options)
        assert found.lists()[row] == alone.lists()[0] and found.proven[row] == alone.proven[0]
    drawn = sample(remembering, starts, state=initial(3), samples=5, eos=3, max_length=4, omega=omega)
    for row in range(3):
        truth = everything(Replayed(row), starts[row].tolist(), omega, eos=3, max_length=4)
        for x, log_p in zip(drawn.lists()[row], drawn.log_probs[row].tolist(), strict=True):
            assert abs(math.exp(log_p) - truth[tuple(x)]) <= 1e-12


def test_state_of_any_kind_with_reorder():
    class Memory:
        def __init__(self, rows):
            self.rows = rows

    def step(tokens, memory):
        assert memory.rows == [tuple(t[:-1]) for t in tokens.tolist()]
        return Tree(3, seed=8)(tokens), Memory([tuple(t) for t in tokens.tolist()])

    def reorder(memory, index):
        return Memory([memory.rows[i] for i in index.tolist()])

    found = beam_search(step, torch.tensor([[0], [1]]), state=Memory([(), ()]), reorder=reorder, beam=4, max_length=4)
    assert found.lists() == beam_search(Tree(3, seed=8), torch.tensor([[0], [1]]), beam=4, max_length=4).lists()
    with pytest.raises(TypeError, match=re.escape("beam_search: state must be made of tensors")):
        beam_search(step, torch.tensor([[0], [1]]), state=Memory([(), ()]), beam=4, max_length=4)


def test_state_made_by_the_first_step():
    def step(tokens, state):
        last = state.get("last", torch.zeros(len(tokens), dtype=torch.long))
        assert len(last) == len(tokens)
        return Tree(3, seed=8)(tokens), {"last": tokens[:, -1]}

    assert greedy(step, 0, state={}, max_length=3).lists() == greedy(Tree(3, seed=8), 0, max_length=3).lists()


def test_state_errors():
    def step(tokens, state):
        return torch.zeros(len(tokens), 3)

    with pytest.raises(TypeError, match=re.escape("greedy: step must return a pair (scores, state)")):
        greedy(step, 0, state={})
    with pytest.raises(ValueError, match=re.escape("beam_search: a tensor of the state must have 1 rows")):
        beam_search(lambda tokens, s: (step(tokens, s), s), 0, state=torch.zeros(2, 3), beam=3)


# --- The map alone


@pytest.mark.parametrize(
    "omega", ["softmax", "entmax15", "sparsemax", omegamax.Tsallis(1.3), omegamax.NormEntropy(3.0)]
)
@pytest.mark.parametrize("temperature", [1.0, 0.3, 5.0])
def test_log_probabilities_are_those_of_the_map(omega, temperature):
    z = torch.randn(4, 3, 9, dtype=torch.float64)
    p = omegamax.get(omega).argmax(z / temperature)
    log_p = log_probabilities(z, omega, temperature)
    assert (log_p.exp() - p).abs().max() <= 1e-14 and torch.equal(log_p == -math.inf, p == 0)


def test_log_probabilities_at_the_edges():
    z = torch.tensor([[0.0, -1e5], [-math.inf, -math.inf], [-math.inf, 3.0]])
    for omega in ("softmax", "sparsemax"):
        log_p = log_probabilities(z, omega)
        assert log_p[1].tolist() == [-math.inf] * 2 and log_p[2].tolist() == [-math.inf, 0.0]
    assert log_probabilities(z, "softmax")[0].tolist() == [0.0, -1e5]
    assert log_probabilities(torch.tensor([1e38, 0.9e38]), "softmax", 1e-3)[0] == 0  # no overflow
    assert log_probabilities(torch.zeros(2, dtype=torch.bfloat16)).dtype == torch.bfloat16
    with pytest.raises(TypeError, match="log_probabilities: z must be a floating-point tensor"):
        log_probabilities(torch.zeros(3).long())
    with pytest.raises(ValueError, match="log_probabilities: temperature must be > 0, got -1"):
        log_probabilities(torch.zeros(3), temperature=-1)


@pytest.mark.parametrize(
    "omega, second, wanted",
    [
        (omegamax.Tsallis(1.01), -80.0, 100 * math.log(0.2)),  # p = (1, 0.2^100): powers of 1 / (alpha - 1)
        (omegamax.Tsallis(torch.tensor(1.01, dtype=torch.float64)), -80.0, 100 * math.log(0.2)),
        (omegamax.Tsallis(torch.tensor(1.0)), -800.0, -800.0),
        (omegamax.Tsallis(0.9), -1e6, -10 * math.log1p(1e5)),
        (omegamax.NormEntropy(1.02), -0.9, 50 * math.log(0.1)),
        (omegamax.Tsallis(1.01), -100.5, -math.inf),
        (omegamax.NormEntropy(1.02), -1.01, -math.inf),
        (omegamax.Tsallis(math.inf), -1.0, -math.inf),
        (omegamax.Tsallis(0.9), -math.inf, -math.inf),
    ],
    ids=str,
)
def test_probabilities_that_underflow_are_not_called_zeros(omega, second, wanted):
    z = torch.tensor([[second, 0.0], [0.0, -math.inf], [-math.inf] * 2])
    log_p = log_probabilities(z, omega)
    assert log_p[0].tolist() == pytest.approx([wanted, 0.0], rel=1e-4, abs=1e-4)
    assert log_p[1].tolist() == [0.0, -math.inf] and log_p[2].tolist() == [-math.inf] * 2
    found = beam_search(lambda tokens: z[:1].expand(len(tokens), 2), 0, beam=1, omega=omega, max_length=1)
    assert found.lists() == [[[1]]] and bool(found.complete) == (wanted == -math.inf)


def test_log_probabilities_that_underflow_have_gradients():
    z = torch.tensor([[0.0, -75.0, -120.0], [0.0, -math.inf, -3.0], [-math.inf] * 3], requires_grad=True)
    log_p = log_probabilities(z, omegamax.Tsallis(1.01))
    (slope,) = torch.autograd.grad(log_p[0, 1], z)
    assert torch.allclose(slope[0], torch.tensor([-4.0, 4.0, 0.0])) and not slope[1:].any()  # 1 / (1 - 0.75)


def test_log_probabilities_have_gradients():
    z = torch.tensor([1.0, 0.6, 0.1, -3.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: log_probabilities(z, "entmax15", 0.7)[:3], z)


def test_support_is_sorted_and_padded():
    p = torch.tensor([[[0.2, 0.0, 0.2, 0.6], [0.0, 1.0, 0.0, 0.0]]])
    found = support(p)
    assert found.tokens.tolist() == [[[3, 0, 2], [1, -1, -1]]] and found.sizes.tolist() == [[3, 1]]
    assert torch.equal(found.probabilities, torch.tensor([[[0.6, 0.2, 0.2], [1.0, 0.0, 0.0]]]))
    dense = support(torch.softmax(torch.randn(5, 7), -1))
    assert dense.tokens.shape == (5, 7) and dense.tokens.sort(-1).values.eq(torch.arange(7)).all()
    assert support(torch.zeros(0, 4)).tokens.shape == (0, 0) and support(torch.zeros(2, 4)).sizes.tolist() == [0, 0]
    for bad, message in ((torch.tensor([0.5, -0.1]), "got values from -0.1"), (torch.tensor(1.0), r"shape \[\*, V\]")):
        with pytest.raises(ValueError, match=f"support: .*{message}"):
            support(bad)


# --- In another library's loop


def foreign_sampler(model, tokens, steps, processors):
    """As such loops go: scores of the last token, processors in turn, softmax, a draw."""
    for _ in range(steps):
        scores = model(tokens)
        for process in processors:
            scores = process(tokens, scores)
        tokens = torch.cat([tokens, scores.softmax(-1).multinomial(1)], 1)
    return tokens


def test_processor_keeps_a_foreign_loop_on_the_support():
    model = Tree(6, seed=3, scale=1.5, dtype=torch.float32)
    process = LogitsProcessor(omegamax.Tsallis(2.0), temperature=0.9)
    tokens = foreign_sampler(model, torch.zeros(60, 1, dtype=torch.long), 3, [process])
    possible = everything(model, [0], "sparsemax", eos=None, max_length=3, temperature=0.9)
    drawn = {tuple(t) for t in tokens[:, 1:].tolist()}
    assert drawn <= set(possible) and len(drawn) > 1 and len(possible) < 6**3
    assert repr(process) == "LogitsProcessor(Tsallis(alpha=2.0), temperature=0.9)"


def test_processor_does_not_see_a_log_softmax():
    z = torch.randn(4, 10, dtype=torch.float64)
    process = LogitsProcessor("entmax15")
    a, b = process(torch.zeros(4, 1).long(), z).exp(), process(torch.zeros(4, 1).long(), z.log_softmax(-1)).exp()
    assert (a - b).abs().max() <= 1e-12 and (a == 0).any()


def tiny_gpt2(transformers):
    config = transformers.GPT2Config(vocab_size=12, n_positions=16, n_embd=16, n_layer=2, n_head=2)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        model.lm_head.weight.mul_(60)  # scores that a sparse map tells apart
    return model


def test_cache_of_transformers_is_a_state():
    transformers = pytest.importorskip("transformers")
    model = tiny_gpt2(transformers)

    def step(tokens, cache):
        out = model(tokens[:, cache.get_seq_length() :], past_key_values=cache, use_cache=True)
        return out.logits[:, -1], out.past_key_values

    def reorder(cache, index):
        cache.reorder_cache(index)
        return cache

    start = torch.tensor([[1, 2], [3, 4]])
    options = dict(beam=6, omega="entmax15", eos=0, max_length=6)
    cached = beam_search(step, start, state=transformers.DynamicCache(), reorder=reorder, **options)
    plain = beam_search(lambda tokens: model(tokens).logits[:, -1], start, **options)
    assert cached.lists() == plain.lists()
    assert torch.allclose(cached.log_probs, plain.log_probs, atol=1e-4)


def test_processor_in_transformers():
    transformers = pytest.importorskip("transformers")
    model = tiny_gpt2(transformers)

    @torch.no_grad()
    def step(tokens):
        return model(tokens).logits[:, -1]

    process = [LogitsProcessor("sparsemax")]
    start = torch.tensor([[1, 2]])
    common = dict(max_new_tokens=4, logits_processor=process, pad_token_id=0, eos_token_id=0)
    common["attention_mask"] = torch.ones_like(start)
    tokens = model.generate(start.repeat(50, 1), do_sample=True, top_k=0, **{**common, "attention_mask": None})
    own = beam_search(step, start, beam=12**4, omega="sparsemax", eos=0, max_length=4)
    assert own.complete.all()
    possible = {tuple(x) + (0,) * (4 - len(x)) for x in own.lists()[0]}
    drawn = {tuple(x) + (0,) * (4 - len(x)) for x in tokens[:, 2:].tolist()}
    assert drawn <= possible and len(possible) < 12**4
    assert (
        model.generate(start, do_sample=False, **common)[0, 2:].tolist()
        == greedy(step, start, omega="sparsemax", eos=0, max_length=4).lists()[0][0]
    )
