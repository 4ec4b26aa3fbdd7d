"""Alignments of two sentences as a hidden layer: sums, zeros, padding and gradients, and the network round them."""

import itertools

import pytest
import torch

from omegamax.models.text import AlignmentLayer, EntailmentClassifier, TextClassifier, TextConfig
from omegamax.models.text.config import ALIGNMENTS
from omegamax.structured import Matching, Sequence, sparsemap

each_kind = pytest.mark.parametrize("kind", ALIGNMENTS)
LENGTHS = [(3, 5), (5, 2), (1, 6), (4, 4), (5, 1), (1, 1)]  # whichever sentence is the longer


def make_scores(lengths=LENGTHS, seed=0):
    """Scores, 7 where there is padding, and the mask."""
    generator = torch.Generator().manual_seed(seed)
    n, m = (max(sizes) for sizes in zip(*lengths, strict=True))
    scores = torch.full((len(lengths), n, m), 7.0, dtype=torch.float64)
    mask = torch.zeros(len(lengths), n, m, dtype=torch.bool)
    for row, (a, b) in enumerate(lengths):
        scores[row, :a, :b] = torch.randn(a, b, dtype=torch.float64, generator=generator)
        mask[row, :a, :b] = True
    return scores, mask


def make_layer(kind):
    layer = AlignmentLayer(kind).double()
    if layer.jumps is not None:
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            layer.jumps.copy_(torch.randn(7, dtype=torch.float64, generator=generator))
    return layer


def make(kind, **changes):
    torch.manual_seed(0)
    return EntailmentClassifier(TextConfig.small(30, 3, alignment=kind, **changes)).double().eval()


def batch(lengths=LENGTHS):
    generator = torch.Generator().manual_seed(1)
    rows = [
        [torch.randint(1, 30, (size,), generator=generator) for size in sizes] for sizes in zip(*lengths, strict=True)
    ]
    pad = torch.nn.utils.rnn.pad_sequence
    return dict(zip(("words", "second"), (pad(each, batch_first=True) for each in rows), strict=True))


@each_kind
def test_padding_has_exactly_no_alignment_and_changes_no_other(kind):
    scores, mask = make_scores()
    layer = make_layer(kind)
    found = layer(scores, mask)
    assert not found.onward[~mask].any() and not found.back.mT[~mask].any() and found.empty()[~mask].all()
    for row, (a, b) in enumerate(LENGTHS):
        alone = layer(scores[row : row + 1, :a, :b], mask[row : row + 1, :a, :b])
        torch.testing.assert_close(found.onward[row, :a, :b], alone.onward[0], rtol=0, atol=1e-9)
        torch.testing.assert_close(found.back[row, :b, :a], alone.back[0], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in ALIGNMENTS if kind != "matching"])
def test_rows_sum_to_one_in_both_directions(kind):
    scores, mask = make_scores()
    found = make_layer(kind)(scores, mask)
    for weights, there in ((found.onward, mask), (found.back, mask.mT)):
        assert (weights >= 0).all()
        torch.testing.assert_close(weights.sum(-1), there.any(-1).double(), rtol=0, atol=1e-9)
    zero = found.empty()[mask]
    assert not zero.any() if kind == "softmax" else zero.any()


def test_matchings_use_each_word_of_the_shorter_sentence_once_and_none_of_the_longer_twice():
    scores, mask = make_scores()
    found = make_layer("matching")(scores, mask)
    assert torch.equal(found.onward, found.back.mT) and (found.onward >= 0).all() and found.empty()[mask].any()
    for row, (a, b) in enumerate(LENGTHS):
        rows, columns = found.onward[row].sum(1), found.onward[row].sum(0)
        shorter, longer = (rows[:a], columns[:b]) if a <= b else (columns[:b], rows[:a])
        torch.testing.assert_close(shorter, torch.ones_like(shorter), rtol=0, atol=1e-9)
        assert (longer <= 1 + 1e-9).all()
        wanted = sparsemap(scores[row, :a, :b], Matching())
        torch.testing.assert_close(found.onward[row, :a, :b], wanted, rtol=0, atol=1e-9)


def test_sharp_scores_are_matched_to_the_best_matching_of_all():
    scores, mask = make_scores([(3, 4), (4, 3)])
    found = make_layer("matching")(1000 * scores, mask).onward
    for row, (a, b) in enumerate([(3, 4), (4, 3)]):
        s = scores[row, :a, :b] if a <= b else scores[row, :a, :b].mT
        places = itertools.permutations(range(s.shape[1]), s.shape[0])
        best = max(places, key=lambda chosen: sum(float(s[i, j]) for i, j in enumerate(chosen)))
        wanted = torch.zeros_like(s)
        wanted[range(len(best)), best] = 1
        assert torch.equal(found[row, :a, :b], wanted if a <= b else wanted.mT)


def test_sequence_adds_a_score_for_each_jump():
    scores, mask = make_scores()
    layer = make_layer("sequence")
    found = layer(scores, mask)
    for row, (a, b) in enumerate(LENGTHS):
        for weights, s in ((found.onward[row, :a, :b], scores[row, :a, :b]), (found.back[row, :b, :a], None)):
            s = scores[row, :a, :b].mT if s is None else s
            labels = range(s.shape[1])
            jumps = [[layer.jumps[3 + max(-3, min(3, to - place))] for to in labels] for place in labels]
            wanted = sparsemap(s, Sequence(transition=torch.stack([torch.stack(each) for each in jumps])))
            torch.testing.assert_close(weights, wanted, rtol=0, atol=1e-9)


def test_sequence_without_transition_scores_is_sparsemax():
    scores, mask = make_scores()
    one, other = AlignmentLayer("sequence").double()(scores, mask), AlignmentLayer("sparsemax")(scores, mask)
    torch.testing.assert_close(one.onward, other.onward, rtol=0, atol=1e-9)
    torch.testing.assert_close(one.back, other.back, rtol=0, atol=1e-9)


@each_kind
def test_gradients_go_through_the_alignment(kind):
    scores, mask = make_scores([(2, 3), (3, 2), (1, 2)])
    layer = make_layer(kind)

    def align(z, *jumps):
        if jumps:
            found = torch.func.functional_call(layer, {"jumps": jumps[0]}, (z, mask))
        else:
            found = layer(z, mask)
        return found.onward, found.back

    jumps = () if layer.jumps is None else (layer.jumps,)
    assert torch.autograd.gradcheck(align, (scores.requires_grad_(), *jumps))


@each_kind
def test_padding_changes_no_answer(kind):
    model, whole = make(kind), batch()
    answer = model(whole)
    assert answer.logits.shape == (len(LENGTHS), 3)
    for row, (a, b) in enumerate(LENGTHS):
        alone = model({"words": whole["words"][row : row + 1, :a], "second": whole["second"][row : row + 1, :b]})
        torch.testing.assert_close(answer.logits[row], alone.logits[0], rtol=0, atol=1e-9)


@each_kind
def test_every_parameter_learns(kind):
    model = make(kind)
    answer = model(batch())
    torch.nn.functional.cross_entropy(answer.logits, torch.arange(len(LENGTHS)) % 3).backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or not p.grad.any()] == []


def test_all_alignments_have_the_same_parameters_but_for_the_jumps_of_a_sequence():
    sizes = {kind: sum(p.numel() for p in make(kind).parameters()) for kind in ALIGNMENTS}
    assert sizes == {kind: sizes["softmax"] + 7 * (kind == "sequence") for kind in ALIGNMENTS}


@each_kind
def test_half_precision_and_empty_batches(kind):
    scores, mask = make_scores()
    layer = make_layer(kind).to(torch.bfloat16)
    found = layer(scores.to(torch.bfloat16), mask)
    assert found.onward.dtype == torch.bfloat16 and found.onward.isfinite().all() and not found.onward[~mask].any()
    empty = make(kind)({"words": torch.zeros(0, 3, dtype=torch.int64), "second": torch.zeros(0, 2, dtype=torch.int64)})
    assert empty.logits.shape == (0, 3)


def test_batches_that_are_no_pairs_are_refused():
    pairs = batch()
    model = make("softmax")
    with pytest.raises(ValueError, match="EntailmentClassifier: reads pairs, got single texts"):
        model({"words": pairs["words"]})
    with pytest.raises(TypeError, match=r"batch must hold second, integer indices, got torch\.float32"):
        model({**pairs, "second": pairs["second"].float()})
    with pytest.raises(ValueError, match="second must have 6 sentences, got 2"):
        model({**pairs, "second": pairs["second"][:2]})
    with pytest.raises(IndexError, match=r"second must be indices in \[0, 30\), got 30"):
        model({**pairs, "second": pairs["second"] + 30 - pairs["second"].max()})
    with pytest.raises(ValueError, match="for these the network must have an alignment"):
        TextClassifier(TextConfig.small(30, 3))(pairs)
    with pytest.raises(ValueError, match="config must have an alignment, got None"):
        EntailmentClassifier(TextConfig.small(30, 3))
    with pytest.raises(ValueError, match=r"TextConfig: alignment must be one of 'softmax', .* got 'diagonal'"):
        TextConfig(alignment="diagonal")
