"""Scores of words against what defines them: one text at a time, one word at a time."""

import pytest
import torch

from omegamax.models.text import EntailmentClassifier, TextClassifier, TextConfig, WordsConfig
from omegamax.tasks.text.game import choose_words, explainers

KINDS = [
    TextConfig.small(12, 3, word_dim=6, hidden_dim=4, score_dim=5, attention=WordsConfig("sparsemax")),
    TextConfig.small(12, 2, word_dim=6, hidden_dim=4, score_dim=5, encoder="transformer", heads=2, layers=1),
    TextConfig.small(
        12, 3, word_dim=6, hidden_dim=4, score_dim=5, attention=WordsConfig("continuous_sparsemax", functions=8)
    ),
]
WORDS = torch.tensor([[3, 5, 7, 5, 2], [4, 9, 0, 0, 0], [6, 0, 0, 0, 0], [11, 10, 1, 0, 0]])
BATCH = {"words": WORDS}
SECOND = torch.tensor([[2, 5, 0], [9, 3, 8], [6, 0, 0], [1, 4, 0]])


@pytest.fixture(params=KINDS, ids=["sparsemax", "transformer", "continuous"])
def model(request):
    torch.manual_seed(1)
    made = TextClassifier(request.param).double().eval()
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(3.0)  # so that words differ
    return made


def read(model, words):
    """Return the log-odds of all classes of one text, from probabilities, and the class with the most."""
    with torch.no_grad():
        p = model({"words": torch.tensor([words])}).logits[0].softmax(-1)
    return (p / (1 - p)).log(), int(p.argmax())


def list_words(row):
    return [word for word in row.tolist() if word]


def test_log_odds_are_those_of_the_probability():
    logits = torch.randn(7, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    decided = torch.arange(7) % 4
    p = logits.softmax(-1).gather(-1, decided.unsqueeze(-1)).squeeze(-1)
    assert torch.allclose(explainers.compute_log_odds(logits, decided), (p / (1 - p)).log(), rtol=0, atol=1e-9)
    sure = explainers.compute_log_odds(torch.tensor([[60.0, 0.0], [61.0, 0.0]]), torch.tensor([0, 0]))
    assert sure.tolist() == [60.0, 61.0]  # where both probabilities round to 1


def test_leaving_out_is_brute_force_over_single_texts(model):
    found = explainers.score_by_leaving_out(model, BATCH)
    for row, scores in zip(WORDS, found, strict=True):
        words = list_words(row)
        odds, best = read(model, words)
        rests = [words[:i] + words[i + 1 :] for i in range(len(words))]
        wanted = [float(odds[best] - read(model, rest)[0][best]) if rest else 0.0 for rest in rests]
        assert scores[: len(words)].tolist() == pytest.approx(wanted, abs=1e-9, rel=0)
        assert scores[len(words) :].isneginf().all()


def test_variation_is_brute_force_over_single_texts(model):
    found = explainers.score_by_variation(model, BATCH)
    for row, scores in zip(WORDS, found, strict=True):
        words = list_words(row)
        with torch.no_grad():
            p, *rests = (
                model({"words": torch.tensor([each])}).logits[0].softmax(-1) if each else None
                for each in (words, *(words[:i] + words[i + 1 :] for i in range(len(words))))
            )
        wanted = [0.0 if rest is None else float((p - rest).clamp(min=0).sum()) for rest in rests]
        assert scores[: len(words)].tolist() == pytest.approx(wanted, abs=1e-9, rel=0)
        assert scores[len(words) :].isneginf().all()


def test_gradients_leave_recurrent_layers_in_their_mode(model):
    explainers.score_by_gradient(model, BATCH)
    assert not any(each.training for each in model.modules())


def test_leaving_out_reads_in_parts_what_does_not_fit(model, monkeypatch):
    whole = explainers.score_by_leaving_out(model, BATCH)
    monkeypatch.setattr(explainers, "_WORDS", {"cpu": 10})
    assert torch.allclose(explainers.score_by_leaving_out(model, BATCH), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_erasure_takes_the_worst_word_again_and_again(model, k):
    found = explainers.score_by_erasing(model, BATCH, k)
    for row, scores in zip(WORDS, found, strict=True):
        left = list(enumerate(list_words(row)))
        best = read(model, [word for _, word in left])[1]
        wanted = torch.full((5,), -torch.inf)
        for rank in range(k, 0, -1):
            if not left:
                break
            rests = [[word for _, word in left[:i] + left[i + 1 :]] for i in range(len(left))]
            odds = [float(read(model, rest)[0][best]) if rest else 0.0 for rest in rests]
            wanted[left.pop(odds.index(min(odds)))[0]] = rank
        assert scores.tolist() == wanted.tolist()


def test_gradient_times_input_is_a_directional_derivative(model):
    found = explainers.score_by_gradient(model, BATCH)
    x, step = model.embedding(WORDS).detach(), 1e-6
    for b, row in enumerate(WORDS):
        count = len(list_words(row))
        mask = torch.ones(1, count, dtype=torch.bool)
        decided = model.read(x[b : b + 1, :count], mask).logits.argmax(-1)
        for i in range(count):
            odds = []
            for sign in (1, -1):
                moved = x[b : b + 1, :count].clone()
                moved[0, i] *= 1 + sign * step
                odds.append(explainers.compute_log_odds(model.read(moved, mask).logits, decided).detach())
            assert float(found[b, i]) == pytest.approx(abs(float(odds[0] - odds[1])) / (2 * step), abs=1e-7)
        assert found[b, count:].isneginf().all()


def test_gradient_times_input_is_the_jacobian_by_autograd(model):
    found = explainers.score_by_gradient(model, {"words": WORDS[:1]})
    x = model.embedding(WORDS[:1]).detach()
    logits = model.read(x, WORDS[:1] != 0).logits[0]
    y = int(logits.argmax())
    jacobian = torch.autograd.functional.jacobian(lambda x: model.read(x, WORDS[:1] != 0).logits[0], x)[:, 0]
    others = logits.clone()
    others[y] = -torch.inf
    gradient = jacobian[y] - torch.einsum("c,cld->ld", others.softmax(-1), jacobian)  # of the log-odds, by hand
    assert torch.allclose(found[0], (gradient * x[0]).sum(-1).abs(), rtol=0, atol=1e-9)
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("kind", ["sparsemax", "entmax", "fusedmax", "k_subsets", "continuous_sparsemax"])
@pytest.mark.parametrize("k", [None, 1, 4])
def test_messages_of_sparse_attention_have_no_word_of_exactly_no_weight(kind, k):
    torch.manual_seed(0)
    attention = WordsConfig(kind, functions=8, k=2)
    made = TextClassifier(TextConfig.small(50, 2, attention=attention)).eval()
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(4.0)
    words = torch.randint(1, 50, (20, 30))
    words[5:, 12:] = 0
    weights = made({"words": words}).attention.weights
    chosen = choose_words(explainers.score_by_attention(made, {"words": words}), k)
    assert not chosen[weights == 0].any() and ((weights == 0) & (words != 0)).any()
    support = (weights > 0).sum(-1)
    assert torch.equal(chosen.sum(-1), support if k is None else support.clamp(max=k))
    lowest = torch.where(chosen, weights, torch.inf).amin(-1)
    assert (lowest >= torch.where(chosen, -torch.inf, weights).amax(-1)).all()


def test_random_words_are_of_the_text_and_the_same_again():
    draws = [explainers.score_at_random(BATCH, torch.Generator().manual_seed(3)) for _ in range(2)]
    assert torch.equal(*draws) and torch.equal(draws[0].isneginf(), WORDS == 0)


@pytest.fixture(params=["softmax", "sparsemax", "matching"])
def pair_model(request):
    torch.manual_seed(1)
    config = TextConfig.small(12, 3, word_dim=6, hidden_dim=4, score_dim=5, alignment=request.param)
    made = EntailmentClassifier(config).double().eval()
    with torch.no_grad():
        for p in made.parameters():
            p.mul_(3.0)
    return made


def read_pair(model, words, second):
    with torch.no_grad():
        p = model({"words": torch.tensor([words]), "second": torch.tensor([second])}).logits[0].softmax(-1)
    return (p / (1 - p)).log(), int(p.argmax())


def test_of_pairs_words_of_the_first_sentence_are_left_out_and_the_second_stays(pair_model):
    found = explainers.score_by_leaving_out(pair_model, {"words": WORDS, "second": SECOND})
    for row, other, scores in zip(WORDS, SECOND, found, strict=True):
        words, second = list_words(row), list_words(other)
        odds, best = read_pair(pair_model, words, second)
        rests = [words[:i] + words[i + 1 :] for i in range(len(words))]
        wanted = [float(odds[best] - read_pair(pair_model, rest, second)[0][best]) if rest else 0.0 for rest in rests]
        assert scores[: len(words)].tolist() == pytest.approx(wanted, abs=1e-8, rel=0)
    erased = explainers.score_by_erasing(pair_model, {"words": WORDS, "second": SECOND}, 1)
    assert torch.equal(erased[0].argmax(), found[0].argmax())


def test_attention_of_a_pair_is_what_the_second_sentence_sees_of_the_first(pair_model):
    batch = {"words": WORDS, "second": SECOND}
    answer = pair_model(batch)
    shares = explainers.read_attention(answer)
    assert torch.allclose(shares.sum(-1), torch.ones(4, dtype=torch.float64), rtol=0, atol=1e-12)
    for b in range(4):
        back = answer.attention.back[b]
        assert torch.allclose(shares[b] * back.sum(), back.sum(0), rtol=0, atol=1e-12)
    scores = explainers.score_by_attention(pair_model, batch)
    assert torch.equal(scores.isneginf(), shares == 0) and scores[WORDS == 0].isneginf().all()


def test_gradient_of_a_pair_is_a_directional_derivative(pair_model):
    found = explainers.score_by_gradient(pair_model, {"words": WORDS, "second": SECOND})
    x, y, step = pair_model.embedding(WORDS).detach(), pair_model.embedding(SECOND).detach(), 1e-6
    decided = pair_model.read(x, WORDS != 0, y, SECOND != 0).logits.argmax(-1)
    for i in range(5):
        odds = []
        for sign in (1, -1):
            moved = x.clone()
            moved[:, i] *= 1 + sign * step
            logits = pair_model.read(moved, WORDS != 0, y, SECOND != 0).logits.detach()
            odds.append(explainers.compute_log_odds(logits, decided))
        slope = (odds[0] - odds[1]).abs() / (2 * step)
        there = WORDS[:, i] != 0
        assert torch.allclose(found[there, i], slope[there], rtol=0, atol=1e-6)
