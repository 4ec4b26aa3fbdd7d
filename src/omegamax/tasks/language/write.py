"""Texts that a language model goes on with: drawn, or the most probable at each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from omegamax._arguments import check_integer, check_number
from omegamax.data.subwords import EOS, PAD, Subwords
from omegamax.generation import Truncation, sample
from omegamax.models.language import Decoder

if TYPE_CHECKING:
    from omegamax.tasks.language.task import LanguageTask


@dataclass(frozen=True)
class WriteConfig:
    """How texts are written.

    Args:
        samples: texts for each prompt.
        max_length: most tokens of a text, the end included.
        min_length: tokens before which a text does not end.
        temperature: by which scores are divided.
        truncation: what predictions lose before a token is drawn.
        page: keys in a page of the cache, which is then read as far as need be; None: all of it is read.
    """

    samples: int = 1
    max_length: int = 100
    min_length: int = 0
    temperature: float = 1.0
    truncation: Truncation = Truncation()  # noqa: RUF009, frozen
    page: int | None = None

    def __post_init__(self) -> None:
        name = "WriteConfig"
        for argument, least in (("samples", 1), ("max_length", 1), ("min_length", 0)):
            check_integer(name, argument, getattr(self, argument), least=least)
        check_number(name, "temperature", self.temperature, above=0)
        if self.page is not None:
            check_integer(name, "page", self.page, least=1)


@dataclass(frozen=True)
class Continuation:
    """A text that a network went on with.

    Args:
        prompt: what it began with.
        text: what follows.
        tokens: of what follows, the end included if it came.
        log_prob: its log-probability.
        finished: False if it was cut.
        share: of the cache's pages that the last step had to read, the mean over layers and heads; None without pages.
    """

    prompt: str
    text: str
    tokens: tuple[int, ...]
    log_prob: float
    finished: bool
    share: float | None = None


@torch.no_grad()
def write(
    task: LanguageTask, prompt: str, config: WriteConfig | None = None, generator: torch.Generator | None = None
) -> list[Continuation]:
    """Go on with a text, several times.

    Args:
        task: a trained network and its tokens, in evaluation mode.
        prompt: what the text begins with; it may be empty.
        config: how to write.
        generator: of random numbers, on the device of the network.

        >>> from omegamax.data.language import EmbeddedReviews
        >>> from omegamax.models.language import LanguageConfig
        >>> from omegamax.tasks.language import LanguageTask
        >>> task = LanguageTask(Subwords.learn(EmbeddedReviews(20), kind="words"), LanguageConfig.tiny()).eval()
        >>> [len(each.tokens) for each in write(task, "the film", WriteConfig(samples=2, max_length=3, min_length=3))]
        [3, 3]
    """
    config = WriteConfig() if config is None else config
    start = torch.tensor([[EOS, *task.vocabulary.encode(prompt)]], device=task.device)
    model = task.model
    state = {} if config.page is None or not isinstance(model, Decoder) else model.initial_state(config.page)
    last: dict[str, Any] = {}

    def step(tokens: torch.Tensor, state: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
        scores, new = model.step(tokens, state)
        last.update(new)
        return scores, new

    drawn = sample(
        step,
        start,
        omega=model.omega,
        samples=config.samples,
        eos=EOS,
        pad=PAD,
        max_length=config.max_length,
        min_length=config.min_length,
        temperature=config.temperature,
        truncation=config.truncation,
        state=state,
        reorder=model.reorder,
        generator=generator,
    )
    rows = zip(drawn.lists()[0], drawn.log_probs[0].tolist(), drawn.finished[0].tolist(), strict=True)
    share = read_share(last)
    decode = task.vocabulary.decode
    return [Continuation(prompt, decode(row), tuple(row), log_p, ended, share) for row, log_p, ended in rows]


def read_share(state: dict[str, Any]) -> float | None:
    """Return the mean share of pages that the last step has read; None where there are no pages."""
    layers = state.get("layers", [])
    found = [layer["own"]["certificate"].share for layer in layers if "certificate" in layer["own"]]
    return float(torch.stack([share.double().mean() for share in found]).mean()) if found else None


def split_pieces(vocabulary: Subwords, tokens: tuple[int, ...]) -> list[tuple[str, int]]:
    """Return texts that together are that of the tokens, each with how many tokens it took: letters may take several.

    >>> letters = Subwords.learn(["x"], kind="bytes", size=260)
    >>> split_pieces(letters, tuple(letters.encode("aé!")))
    [('a', 1), ('é', 2), ('!', 1)]
    """
    pieces: list[tuple[str, int]] = []
    done, begun = "", 0
    for count in range(1, len(tokens) + 1):
        text = vocabulary.decode(tokens[:count])
        if text.endswith("\ufffd") and count < len(tokens):
            continue
        pieces.append((text.removeprefix(done), count - begun))
        done, begun = text, count
    return pieces
