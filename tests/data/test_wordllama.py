"""Vectors from the files of the package wordllama, whole and damaged; the real ones where it is installed."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from omegamax.data import DataError
from omegamax.data.wordllama import DIM, read_wordllama

tokenizers = pytest.importorskip("tokenizers")


def write_package(folder: Path) -> Path:
    """Write files as the package has them, with the pieces of two words."""
    from safetensors.torch import save_file

    pieces = {"[UNK]": 0, "good": 1, "ness": 2}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(pieces | {"##ness": 3}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    (folder / "weights").mkdir(parents=True)
    (folder / "tokenizers").mkdir()
    table = torch.arange(4.0).unsqueeze(-1).expand(4, 3).to(torch.float16).contiguous()
    save_file({"embedding.weight": table}, folder / "weights/l2_supercat_256.safetensors")
    tokenizer.save(str(folder / "tokenizers/l2_supercat_tokenizer_config.json"))
    return folder


def test_a_word_has_the_mean_of_its_pieces(tmp_path):
    vectors = read_wordllama(["good", "goodness", "", "gaffer"], write_package(tmp_path))
    assert vectors.table[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0] and vectors.table.dtype == torch.float32
    assert vectors.found.tolist() == [True, True, False, True] and vectors.embedding().shape == (6, 3)


def test_damaged_files_are_named(tmp_path):
    folder = write_package(tmp_path)
    (folder / "tokenizers/l2_supercat_tokenizer_config.json").write_text("{}")
    with pytest.raises(DataError, match=r"config\.json cannot be read .*pip install 'omegamax\[vectors\]'"):
        read_wordllama(["good"], folder)
    (folder / "weights/l2_supercat_256.safetensors").write_bytes(b"no")
    with pytest.raises(DataError, match="has not the files of wordllama"):
        read_wordllama(["good"], folder)
    with pytest.raises(DataError, match="has not the files of wordllama"):
        read_wordllama(["good"], tmp_path / "nowhere")


@pytest.mark.skipif(find_spec("wordllama") is not None, reason="it is installed")
def test_package_that_is_missing_is_named():
    with pytest.raises(ImportError, match=r"wordllama is not installed: pip install 'omegamax\[vectors\]'"):
        read_wordllama(["good"])


@pytest.mark.skipif(find_spec("wordllama") is None, reason="needs the package wordllama")
def test_real_vectors_know_what_is_alike():
    vectors = read_wordllama(["good", "great", "harbour"])
    good, great, harbour = torch.nn.functional.normalize(vectors.table, dim=-1)
    assert vectors.dim == DIM and float(good @ great) > float(good @ harbour) + 0.2
