"""What the embedding of a network's words starts from, where others have trained vectors of them."""

from __future__ import annotations

from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from omegamax.data import DataError, Vocabulary, read_word_vectors
from omegamax.data.wordllama import NAME, read_wordllama


def load_embedding(source: str | None, vocabulary: Vocabulary, dim: int) -> Tensor | None:
    """Return the rows ``[words, dim]`` of an embedding; None without a source. Says how many words were found.

    Args:
        source: file of GloVe or word2vec, see :func:`~omegamax.data.read_word_vectors`; or ``"wordllama"``, whose
            vectors have 256 numbers, see :func:`~omegamax.data.wordllama.read_wordllama`.
        vocabulary: of the words.
        dim: size of a vector, that of the network.
    """
    if source is None:
        return None
    if source != NAME:
        vectors = read_word_vectors(source, vocabulary.words, dim)
    else:
        vectors = read_wordllama(vocabulary.words)
        if vectors.dim != dim:
            raise DataError(f"{NAME} has vectors of size {vectors.dim}, wanted {dim}; give word_dim this size")
    rank_zero_info(vectors.report)
    return vectors.embedding()
