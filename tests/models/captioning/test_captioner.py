"""Captioners: the equations of the paper written out, any kind of attention, and writing against scoring."""

import dataclasses
import itertools

import pytest
import torch

from omegamax.generation import log_probabilities
from omegamax.models.captioning import CaptionConfig, Captioner
from omegamax.models.mcan import OutputConfig

KINDS = {
    "softmax": OutputConfig(),
    "sparsemax": OutputConfig("sparsemax"),
    "entmax": OutputConfig("entmax", learnable=True),
    "tvmax": OutputConfig("tvmax", learnable=True),
    "k_subsets": OutputConfig("k_subsets", k=3),
    "continuous_softmax": OutputConfig("continuous_softmax", functions=3),
    "continuous_sparsemax": OutputConfig("continuous_sparsemax", functions=3, combined=True),
    "multimodal": OutputConfig("multimodal", functions=3, components="fixed", max_components=2),
}


def tiny(**changes):
    sizes = {"word_dim": 5, "hidden_dim": 8, "image_dim": 4, "feature_dim": 6, "score_dim": 7, "heads": 2, "layers": 2}
    return CaptionConfig(12, **{**sizes, "feedforward_dim": 9, **changes})


def make_batch(dtype=torch.float64):
    torch.manual_seed(1)
    caption = torch.tensor([[2, 5, 7, 4, 3], [2, 9, 3, 0, 0], [2, 6, 6, 3, 0]])
    return {"caption": caption, "features": torch.randn(3, 12, 4, dtype=dtype), "grid": (3, 4)}


def build(**changes):
    torch.manual_seed(0)
    return Captioner(tiny(**changes)).double().eval()


def test_lstm_is_that_of_the_paper():
    """One word after the other, as Sec. 3 and Eq. 10 say, with sparsemax by bisection of its definition."""
    model, batch = build(attention=OutputConfig("sparsemax")), make_batch()
    decoder, writing = model.decoder, model(batch)

    def score(part, v, h):
        one = part.score
        return torch.tanh(v @ one.key.weight.T + h @ one.query.weight.T + one.query.bias) @ one.score.weight[0]

    def sparsemax(z):
        low, high = z.max() - 1, z.max()
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if (z - middle).clamp(min=0).sum() > 1 else (low, middle)
        return (z - low).clamp(min=0)

    for row in range(3):
        v = torch.relu(model.encoder.project(batch["features"][row]))
        h, c = torch.tanh(decoder.start(v.mean(0))).chunk(2)
        for t in range(4):
            alpha = torch.softmax(torch.stack([score(decoder.input, each, h) for each in v]), 0)
            x = torch.cat([decoder.embedding.weight[batch["caption"][row, t]], alpha @ v])
            h, c = (part[0] for part in decoder.cell(x[None], (h[None], c[None])))
            alpha = sparsemax(torch.stack([score(decoder.output, each, h) for each in v]))
            r = torch.tanh(decoder.read(alpha @ v))
            torch.testing.assert_close(writing.hidden[row, t], torch.cat([r, h]), rtol=0, atol=1e-12)
            torch.testing.assert_close(writing.maps()[row, t].flatten(), alpha, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_learns_and_shows_where_it_looks(kind, decoder):
    model, batch = build(attention=KINDS[kind], decoder=decoder).train(), make_batch()
    writing = model(batch)
    maps = writing.maps()
    assert maps.shape == (3, 4, 3, 4) and bool((maps >= 0).all())
    torch.testing.assert_close(maps.sum((2, 3)), torch.ones(3, 4, dtype=maps.dtype), rtol=0, atol=1e-6)
    model.loss(batch, writing).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), name
    assert model.encoder.project.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@pytest.mark.parametrize("kind", ["softmax", "tvmax", "continuous_sparsemax"])
def test_pictures_of_other_sizes_do_not_see_padding(kind, decoder):
    """A smaller picture in a padded batch has the loss it has alone."""
    model, batch = build(attention=dataclasses.replace(KINDS[kind], learnable=False), decoder=decoder), make_batch()
    small = {"caption": batch["caption"][:1], "features": batch["features"][:1, :6], "grid": (2, 3)}
    padded = torch.full((2, 3, 4, 4), float("nan"), dtype=torch.float64)
    padded[0, :2, :3] = small["features"][0].view(2, 3, 4)
    padded[1] = batch["features"][1].view(3, 4, 4)
    sizes = torch.tensor([[2, 3], [3, 4]])
    mask = torch.zeros(2, 3, 4, dtype=torch.bool)
    mask[0, :2, :3] = mask[1] = True
    both = {"caption": batch["caption"][:2], "features": padded.flatten(1, 2), "grid": (3, 4)}
    both |= {"feature_mask": mask.flatten(1), "sizes": sizes}
    writing, alone = model(both), model(small)
    torch.testing.assert_close(writing.hidden[0], alone.hidden[0], rtol=0, atol=1e-10)
    torch.testing.assert_close(writing.maps()[0, :, :2, :3], alone.maps()[0], rtol=0, atol=1e-10)
    assert not writing.maps()[0, :, 2].any() and not writing.maps()[0, :, :, 3].any()


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@pytest.mark.parametrize("output", ["softmax", "sparsemax", "entmax15"])
def test_what_is_written_has_the_probability_it_is_scored_with(decoder, output):
    model, batch = build(decoder=decoder, output=output), make_batch()
    found = model.write(batch, beam=4, returned=2, max_length=6)
    for which in range(found.tokens.shape[1]):
        tokens, lengths = found.tokens[:, which], found.lengths[:, which]
        there = lengths > 0
        start = torch.full((3, 1), 2)
        writing = model({**batch, "caption": torch.cat([start, tokens], 1)})
        z = model.output(writing.hidden)
        z[..., [0, 1, 2]] = -torch.inf
        log_p = log_probabilities(z, model.output.omega).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)
        kept = torch.arange(tokens.shape[1]) < lengths.unsqueeze(-1)
        total = log_p.where(kept, 0.0).sum(-1)
        torch.testing.assert_close(total[there], found.log_probs[:, which][there], rtol=0, atol=1e-9)
        assert not ((tokens < 3) & kept).any()


def test_sparse_output_can_prove_its_caption():
    """With scores that leave few words, the search is complete: all probability is in what it returns."""
    model, batch = build(output="sparsemax"), make_batch()
    with torch.no_grad():
        model.output.weight.mul_(20)
    found = model.write(batch, beam=200, returned=200, max_length=4)
    assert bool(found.complete.all()) and bool(found.exact.all())
    torch.testing.assert_close(found.mass, torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-9)


@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
@pytest.mark.parametrize("output", ["softmax", "sparsemax", "entmax15"])
def test_captions_are_those_of_enumeration(decoder, output):
    """Of three words and an end, all captions up to three tokens; what is claimed to be the likeliest is."""
    torch.manual_seed(3)
    config = dataclasses.replace(tiny(decoder=decoder, output=output), words=7)
    model, batch = Captioner(config).double().eval(), make_batch()
    with torch.no_grad():
        model.output.weight.mul_(6)
    wide, narrow = (model.write(batch, beam=beam, returned=beam, max_length=3) for beam in (50, 2))
    rows = torch.tensor(list(itertools.product((4, 5, 6), repeat=3)))
    shown = torch.cat([torch.full((27, 1), 2), rows], 1)
    for row in range(3):
        features = batch["features"][row].expand(27, -1, -1)
        z = model.output(model({**batch, "features": features, "caption": shown}).hidden).detach()
        z[..., [0, 1, 2]] = -torch.inf
        p = log_probabilities(z, model.output.omega).exp()
        truth = {}
        for words, each in zip(rows.tolist(), p, strict=True):
            for length in (1, 2, 3):
                for last in (3, *((words[2],) if length == 3 else ())):
                    tokens = (*words[: length - 1], last)
                    truth[tokens] = float(each[range(length), list(tokens)].prod())
        possible = {tokens: chance for tokens, chance in truth.items() if chance > 0}
        assert sum(possible.values()) == pytest.approx(1, abs=1e-12) and (output == "softmax") == (len(possible) == 40)
        found = dict(zip(map(tuple, wide.lists()[row]), wide.log_probs[row].exp().tolist(), strict=False))
        assert found == pytest.approx(possible, abs=1e-12) and bool(wide.complete[row])
        assert float(wide.log_probs[row, 0].exp()) == pytest.approx(max(truth.values()), abs=1e-12)
        if bool(narrow.exact[row]):
            assert float(narrow.log_probs[row, 0].exp()) == pytest.approx(max(truth.values()), abs=1e-12)


def test_loss_is_a_mean_over_words_that_are_there():
    model, batch = build(), make_batch()
    writing = model(batch)
    log_p = model.output(writing.hidden).log_softmax(-1)
    target = batch["caption"][:, 1:]
    each = -log_p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
    wanted = each[target != 0].mean()
    torch.testing.assert_close(model.loss(batch), wanted, rtol=0, atol=1e-12)


def test_gradcheck_of_the_whole():
    model, batch = build(attention=OutputConfig("tvmax", strength=0.02)), make_batch()
    features = batch["features"][:1].clone().requires_grad_()
    short = {"caption": batch["caption"][:1, :4], "grid": (3, 4)}
    assert torch.autograd.gradcheck(lambda x: model.loss({**short, "features": x}), (features,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoder": "gru"}, "decoder must be one of"),
        ({"attention": OutputConfig(heads=2)}, "attention must have heads=1"),
        ({"input_attention": OutputConfig("continuous_softmax", source="question")}, "input_attention must have"),
        ({"transform": "tvmax"}, "transform must be a map along one axis"),
        ({"decoder": "transformer", "heads": 3}, "multiple of heads"),
        ({"dropout": 1.0}, "dropout must"),
        ({"grid": (0, 3)}, "grid must be at least 1 along every axis"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        tiny(**changes)


def test_wrong_features_are_refused():
    model, batch = build(), make_batch()
    with pytest.raises(ValueError, match=r"4 channels \(image_dim\), got 5"):
        model({**batch, "features": torch.zeros(3, 12, 5, dtype=torch.float64)})
    with pytest.raises(ValueError, match=r"\[B, 3 \* 4, D\]"):
        model({**batch, "features": torch.zeros(3, 11, 4, dtype=torch.float64)})
    with pytest.raises(ValueError, match="needs features"):
        model({"caption": batch["caption"], "image": torch.zeros(3, 3, 8, 8)})
