"""Words that can follow: as many as exhaustive search finds, with their probabilities, and what is hostile."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest
import torch

pytest.importorskip("tokenizers")

import omegamax
from omegamax.data.translation import BOS, EOS, PAD, UNK, PairVocabulary, SentencePair, TinyPairs
from omegamax.models.translation import TokenOutputConfig, TranslatorConfig
from omegamax.tasks.translation import TranslationTask
from omegamax.tasks.translation.typing import find_next_words

TEXTS = ["ab ba, aab.", "bab a. ba", "a-b abba, bb"]
LONGEST = 3  # subwords of a word that exhaustive search follows


def make_task(transform: str, kind: str = "bpe", sharp: float = 4.0, seed: int = 0, **changes) -> TranslationTask:
    pairs = [SentencePair(text, text, str(n)) for n, text in enumerate(TEXTS)] if kind == "bpe" else TinyPairs(30)
    vocabulary = PairVocabulary.learn(pairs, kind=kind, size=14 if kind == "bpe" else 200)
    torch.manual_seed(seed)
    config = TranslatorConfig.tiny(output=TokenOutputConfig(transform), **changes)
    task = TranslationTask(vocabulary, config).eval()
    with torch.no_grad():
        task.model.output.weight.mul_(sharp)
    return task


def is_inner(piece: str) -> bool:
    return not piece.startswith("\u2581") and not is_mark(piece)


def is_mark(piece: str) -> bool:
    return all(c in ",.-" for c in piece)


@torch.no_grad()
def follow(task, source, known, word=()):
    """Exhaustive search: all words, their subwords one by one, by single steps of the network."""
    tokens = task.vocabulary.target.tokens
    state = task.model.encode(torch.tensor([task.vocabulary.encode_source(source)]))
    scores, _ = task.model.step(torch.tensor([[BOS, *known, *word]]), state)
    p = task.model.omega.argmax(scores)[0].double()
    found: dict[str, float] = {}
    for token in range(len(tokens)):
        if not p[token] > 0:
            continue
        inner = token > UNK and is_inner(tokens[token])
        if word and (token == EOS or not inner):
            text = "".join(tokens[each] for each in word).removeprefix("\u2581")
            written = text or (tokens[token] if is_mark(tokens[token]) else "")  # behind a blank alone
            if written:
                found[written] = found.get(written, 0.0) + float(p[token])
        elif not word and token == EOS:
            found[""] = float(p[token])
        elif is_mark(tokens[token]):
            found[tokens[token]] = found.get(tokens[token], 0.0) + float(p[token])
        elif len(word) < LONGEST:
            for text, q in follow(task, source, known, (*word, token)).items():
                found[text] = found.get(text, 0.0) + float(p[token]) * q
    return found


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("transform", ["sparsemax", "entmax15"])
def test_words_are_those_of_exhaustive_search(transform, seed):
    task = make_task(transform, seed=seed, sharp=8.0)
    for prefix in ("", "ba, "):
        known = task.vocabulary.target.encode(prefix.strip())
        wanted = follow(task, "ab ba", known)
        found = find_next_words(task, "ab ba", prefix, most=500)
        assert found.end == pytest.approx(wanted.pop("", 0.0), abs=1e-6)
        said = Counter()
        for each in found.words:
            said[each.word] += each.probability
        # What exhaustive search gave up on is longer than the words it knows; so is what never ends.
        for word, p in wanted.items():
            assert said[word] >= p - 1e-6
        for word, p in said.items():
            if len(word) <= LONGEST - 1:
                assert p == pytest.approx(wanted[word], abs=1e-6)
        given = [each.probability for each in found.words]
        assert sorted(given, reverse=True) == given


@pytest.mark.parametrize("transform", ["softmax", "sparsemax", "entmax15"])
@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_nothing_is_lost(transform, kind):
    task = make_task(transform, kind)
    source = "ab ba" if kind == "bpe" else TinyPairs(30)[0].source
    for most in (1, 5, 200):
        found = find_next_words(task, source, "", most)
        assert found.end + found.rest + sum(each.probability for each in found.words) == pytest.approx(1, abs=1e-5)
    assert (transform != "softmax") or not find_next_words(task, source, "", 5).complete


def test_mark_behind_a_blank_is_a_word():
    task = make_task("sparsemax")
    tokens = task.vocabulary.target.tokens
    bias = torch.full((len(tokens),), -1e3)
    bias[[tokens.index("\u2581"), tokens.index("."), tokens.index("\u2581ab")]] = torch.tensor([0.1, 0.0, -0.1])
    with torch.no_grad():
        task.model.output.weight.zero_()
        task.model.output.bias.copy_(bias)
    p = omegamax.sparsemax(bias)
    blank, mark, word = (float(p[tokens.index(each)]) for each in ("\u2581", ".", "\u2581ab"))
    found = find_next_words(task, "ab ba", "")
    said = {each.text: (each.word, pytest.approx(each.probability, abs=1e-6)) for each in found.words}
    assert said["."] == (".", mark + blank * mark)
    assert found.rest == pytest.approx(blank * (blank + word), abs=1e-6) and not found.complete
    found = find_next_words(task, "ab ba", "ba ")
    said = {each.text: pytest.approx(each.probability, abs=1e-6) for each in found.words if each.word == "."}
    assert said == {"ba.": mark, "ba .": blank * mark}


def test_letters_choose_among_the_words():
    task = make_task("softmax")
    every = find_next_words(task, "ab ba", "ba ", most=60)
    some = find_next_words(task, "ab ba", "ba a", most=60)
    assert some.letters == "a" and some.end == 0
    wanted = {each.word: each.probability for each in every.words if each.word.startswith("a") and len(each.word) < 3}
    said = {each.word: each.probability for each in some.words}
    assert wanted and all(said[word] == pytest.approx(p, abs=1e-6) for word, p in wanted.items())
    assert all(each.text == f"ba {each.word}" for each in some.words)


def test_a_beginning_that_cannot_be_is_told():
    task = make_task("sparsemax", "words", sharp=30.0)
    found = find_next_words(task, "der hund", "")
    impossible = next(w for w in task.vocabulary.target.tokens[4:] if w not in {each.word for each in found.words})
    assert find_next_words(task, "der hund", f"{impossible} ").impossible == impossible
    assert find_next_words(task, "der hund", "xyzzy ").impossible == "xyzzy"
    assert find_next_words(task, "der hund", f"{found.words[0].word} ").impossible is None


def test_a_blank_that_cannot_be_is_told_by_the_mark_behind_it():
    task = make_task("sparsemax")
    tokens = task.vocabulary.target.tokens
    with torch.no_grad():
        task.model.output.weight.zero_()
        task.model.output.bias[tokens.index("\u2581")] = -1e3
    for prefix in (". ab", ".", ", ab. "):
        assert find_next_words(task, "ab ba", prefix).impossible == prefix[0]


@pytest.mark.parametrize("changes", [{}, {"architecture": "recurrent", "density": "continuous_sparsemax"}])
def test_other_networks_and_odd_texts(changes):
    task = make_task("entmax15", **changes)
    for text in ("日本 \u202e語", "\x00\ufffd", "</s> <pad>", "a" * 40, "a,.-" * 9, "\u2581 \u2581"):
        for prefix in (text, f"{text} "):
            found = find_next_words(task, text, prefix, 20)
            assert all(each.probability > 0 for each in found.words)


def test_what_cannot_be_translated_is_refused():
    task = make_task("sparsemax")
    with pytest.raises(ValueError, match="source must have words"):
        find_next_words(task, "  ", "")
    with pytest.raises(ValueError, match="at most 256 subwords"):
        find_next_words(task, "a " * 300, "")
    with pytest.raises(ValueError, match="most must be"):
        find_next_words(task, "a", "", 0)


def test_words_end_where_the_tokenizer_ends_them():
    subwords = make_task("softmax").vocabulary.target
    for text in TEXTS:
        cut = [subwords.tokens[token] for token in subwords.encode(text)]
        starts = [n for n, piece in enumerate(cut) if n == 0 or not is_inner(piece) or not is_inner("x" + cut[n - 1])]
        assert starts  # the rule of words by pieces
        joined = ["".join(cut[a:b]) for a, b in itertools.pairwise([*starts, len(cut)])]
        assert "".join(joined) == "".join(subwords.words(text))
    assert PAD == 0


@pytest.mark.parametrize("kind", ["words", "bpe"])
def test_softmax_is_never_said_to_list_all(kind):
    # In single precision, and for long words in double too, nearly all of these probabilities would be exact zeros.
    task = make_task("softmax", kind, sharp=3e3)
    prefix = "the " if kind == "words" else "ba "
    found = find_next_words(task, "der hund hat den ball gefunden ." if kind == "words" else "ab", prefix, most=3)
    assert found.impossible is None and not found.complete and len(found.words) == 3
