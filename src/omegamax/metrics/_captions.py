"""Captions against the captions that people wrote: BLEU, METEOR, ROUGE-L, CIDEr and SPICE, by pycocoevalcap."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from omegamax._arguments import check_choice

TOKENISERS = ("auto", "ptb", "plain")
SCORES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "SPICE")
_JAVA = ("METEOR", "SPICE")
_MODELS = ("stanford-corenlp-3.6.0.jar", "stanford-corenlp-3.6.0-models.jar")  # that SPICE downloads, 400 MB
# A word, with hyphens and points inside it; a clitic ("n't" before the rest, so that "don't" is "do n't").
_WORD = re.compile(r"[^\W_]+?(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|[^\W_]+(?:[-.,][^\W_]+)*")

Texts = Mapping[str, list[str]]


def caption_scores(
    candidates: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    scores: Iterable[str] | None = None,
    tokeniser: str = "auto",
) -> dict[str, float]:
    """Return the scores of captions as the package pycocoevalcap computes them, by their names.

    BLEU, METEOR, ROUGE-L and SPICE lie in [0, 1]; CIDEr begins at 0, and is about 1 for good captions. CIDEr weighs
    words by how many images have them in their references, so that it says something of a whole set only: of a single
    image it is 0.

    Args:
        candidates: one caption for each image.
        references: for each image the captions that people wrote, at least one.
        scores: names among ``"BLEU-1"`` to ``"BLEU-4"``, ``"METEOR"``, ``"ROUGE-L"``, ``"CIDEr"``, ``"SPICE"``; None:
            all that can be had here, see :func:`missing_scores`.
        tokeniser: ``"ptb"``, that of the Penn Treebank, as published numbers have it, which needs Java; ``"plain"``,
            :func:`split_caption`, which does not; ``"auto"``: the former where there is Java, see
            :func:`find_tokeniser`. Numbers of the two are not to be compared: say which.

    References: Chen et al., "Microsoft COCO captions: data collection and evaluation server" (2015); Papineni et al.,
    "BLEU" (ACL 2002); Banerjee and Lavie, "METEOR" (2005); Lin, "ROUGE" (2004); Vedantam et al., "CIDEr" (CVPR 2015);
    Anderson et al., "SPICE" (ECCV 2016).
    """
    name = "caption_scores"
    check_choice(name, "tokeniser", tokeniser, TOKENISERS)
    missing = missing_scores()
    wanted = [each for each in SCORES if each not in missing] if scores is None else list(scores)
    for each in wanted:
        check_choice(name, "scores", each, SCORES)
        if each in missing:
            raise ImportError(f"{name}: no {each} here: {missing[each]}")
    _check_texts(name, candidates, references)
    if not wanted:
        raise ImportError(f"{name}: {missing['BLEU-1']}")
    cut = find_tokeniser() if tokeniser == "auto" else tokeniser
    said = _tokenise({str(i): [text] for i, text in enumerate(candidates)}, cut)
    known = _tokenise({str(i): list(texts) for i, texts in enumerate(references)}, cut)
    found: dict[str, float] = {}
    for scorer in dict.fromkeys(each.partition("-")[0] for each in wanted):
        found |= _score(scorer, known, said)
    return {each: found[each] for each in wanted}


def missing_scores() -> dict[str, str]:
    """Return the scores that cannot be had here, each with what would bring it."""
    if find_spec("pycocoevalcap") is None:
        reason = "pycocoevalcap is not installed: pip install 'omegamax[captions]'"
        return dict.fromkeys(SCORES, reason)
    if shutil.which("java") is None:
        reason = "it runs in Java, and there is no program java: install a runtime, such as openjdk-17-jre-headless"
        return dict.fromkeys(_JAVA, reason)
    return {} if _has_spice_models() else {"SPICE": _no_models()}


def find_tokeniser() -> str:
    """Return the tokeniser that there is: ``"ptb"``, or ``"plain"`` where Java is missing."""
    return "plain" if shutil.which("java") is None or find_spec("pycocoevalcap") is None else "ptb"


def split_caption(text: str) -> list[str]:
    """Return the words of a caption in lower case, without punctuation.

    Close to the tokeniser of the Penn Treebank without its rules for abbreviations, amounts and brackets.

    >>> split_caption("Two dogs, one black-and-white, don't share a man's frisbee.")
    ['two', 'dogs', 'one', 'black-and-white', 'do', "n't", 'share', 'a', 'man', "'s", 'frisbee']
    """
    return _WORD.findall(text.lower().replace("\u2019", "'"))


def _tokenise(texts: Texts, tokeniser: str) -> Texts:
    if tokeniser == "plain":
        return {key: [" ".join(split_caption(each)) for each in several] for key, several in texts.items()}
    if find_tokeniser() != "ptb":
        raise ImportError("caption_scores: tokeniser 'ptb' needs Java and pycocoevalcap; give 'plain', and say so")
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    lines = {key: [{"caption": " ".join(each.split())} for each in several] for key, several in texts.items()}
    return PTBTokenizer().tokenize(lines)  # type: ignore[no-any-return]


def _score(scorer: str, known: Texts, said: Texts) -> dict[str, float]:
    """Return what one scorer gives, by the names of its scores."""
    if scorer == "BLEU":
        from pycocoevalcap.bleu.bleu import Bleu

        values, _ = Bleu(4).compute_score(known, said, verbose=0)
        return {f"BLEU-{n}": float(value) for n, value in enumerate(values, 1)}
    if scorer == "METEOR":
        return {"METEOR": _meteor(known, said)}
    if scorer == "ROUGE":
        from pycocoevalcap.rouge.rouge import Rouge

        return {"ROUGE-L": float(Rouge().compute_score(known, said)[0])}
    if scorer == "CIDEr":
        from pycocoevalcap.cider.cider import Cider

        return {"CIDEr": float(Cider().compute_score(known, said)[0])}
    from pycocoevalcap.spice.spice import Spice

    return {"SPICE": float(Spice().compute_score(known, said)[0])}


def _meteor(known: Texts, said: Texts) -> float:
    from pycocoevalcap.meteor.meteor import Meteor

    scorer = Meteor()
    try:
        return float(scorer.compute_score(known, said)[0])
    except (OSError, ValueError) as error:
        raise RuntimeError(f"caption_scores: METEOR's Java program ended early ({error}); does java run?") from error
    finally:
        if scorer.lock.locked():  # an error leaves it so, and the scorer would wait for it for ever when it is dropped
            scorer.lock.release()
        for pipe in (scorer.meteor_p.stdout, scorer.meteor_p.stderr):
            pipe.close()


def _has_spice_models() -> bool:
    return all((_spice_folder() / name).is_file() for name in _MODELS)


def _no_models() -> str:
    return f"its models are missing: put {' and '.join(_MODELS)} of Stanford CoreNLP 3.6.0 into {_spice_folder()}"


def _spice_folder() -> Path:
    spec = find_spec("pycocoevalcap.spice")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "lib"


def _check_texts(name: str, candidates: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if isinstance(candidates, str) or not candidates or not all(isinstance(each, str) for each in candidates):
        raise TypeError(f"{name}: candidates must be a list of captions, at least one, each a text")
    if len(references) != len(candidates):
        raise ValueError(f"{name}: wanted references for {len(candidates)} images, got {len(references)}")
    for index, several in enumerate(references):
        if isinstance(several, str) or not several or not all(isinstance(each, str) for each in several):
            raise TypeError(f"{name}: references[{index}] must be a list of captions, at least one, each a text")
