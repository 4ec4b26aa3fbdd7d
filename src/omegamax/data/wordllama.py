"""Vectors of words from the files of the package wordllama, which come with it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch

from omegamax.data.errors import DataError
from omegamax.data.files import reason
from omegamax.data.word_vectors import WordVectors

NAME = "wordllama"
DIM = 256
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_INSTALL = "pip install 'omegamax[vectors]'"


def read_wordllama(words: Sequence[str], folder: Path | None = None) -> WordVectors:
    """Read vectors of size 256 for any words: the mean over the pieces that a word is made of.

    The package holds a vector for each of 32,000 pieces of words, taken from the embedding of a language model and
    trained on. It is not imported; only its two files are read. Every word has a vector.

    Args:
        words: such as ``vocabulary.words``.
        folder: of the package; None: where it is installed.

    Source: https://github.com/dleemiller/WordLlama, MIT licence.
    """
    folder = _find_package() if folder is None else folder
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise ImportError(f"read_wordllama: {error.name} is not installed: {_INSTALL}") from error
    try:
        pieces = load_file(folder / _WEIGHTS)["embedding.weight"].float()
        tokenizer = Tokenizer.from_str((folder / _TOKENIZER).read_text(encoding="utf-8"))
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(f"{folder} has not the files of wordllama 0.4 ({reason(error)}); {_INSTALL}") from error
    except Exception as error:  # what tokenizers raises of a file that it cannot read
        raise DataError(f"{folder / _TOKENIZER} cannot be read ({reason(error)}); {_INSTALL}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    rows = [encoded.ids for encoded in tokenizer.encode_batch(list(words), add_special_tokens=False)]
    found = torch.tensor([bool(row) for row in rows])
    if not bool(found.any()):
        raise DataError(f"{folder} has none of the {len(words):,} words; give vectors of this language")
    if max(index for row in rows for index in row) >= len(pieces):
        raise DataError(f"{folder} has a tokenizer with more pieces than vectors, {len(pieces):,}; {_INSTALL}")
    table = torch.stack([pieces[row].mean(0) if row else torch.zeros(pieces.shape[1]) for row in rows])
    return WordVectors(tuple(words), table, found, NAME)


def _find_package() -> Path:
    spec = find_spec(NAME)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"read_wordllama: {NAME} is not installed: {_INSTALL}")
    return Path(next(iter(spec.submodule_search_locations)))
