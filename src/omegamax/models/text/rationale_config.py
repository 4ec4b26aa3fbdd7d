"""How many words a rationale has, and by which map they are chosen."""

from __future__ import annotations

from dataclasses import dataclass

from omegamax._arguments import check_choice, check_integer, check_number

SELECTORS = ("k_subsets", "sequential_k_subsets", "budget", "hard_concrete")


@dataclass(frozen=True)
class RationaleConfig:
    """Which words a reader is shown, and how many.

    Args:
        selector: ``"k_subsets"``; ``"sequential_k_subsets"``, where neighbours earn a score together; ``"budget"``,
            LP-SparseMAP with a factor for each pair of neighbours and one for the most words there may be;
            ``"hard_concrete"``, each word by itself and at random, held to the number by a Lagrange multiplier.
        k: words of a rationale; shorter texts have all of theirs.
        share: of its words that a text's rationale has, rounded up, in place of ``k``.
        temperature: that scores are divided by, those of hard concrete together with their noise: the lower, the fewer
            words have a weight between 0 and 1.
        transition: what two neighbours earn that are both chosen, of ``"sequential_k_subsets"`` and ``"budget"``.
        penalty: of hard concrete, on the square of the difference between the share of words that it is expected to
            choose and the one it should.
        growth: by how much that difference changes the multiplier in each step of training.
        anneal: of hard concrete, steps of training in which the number of words falls from all to what it should be.

    Example:
        >>> RationaleConfig("budget", share=0.2).count_words(11), RationaleConfig(k=4).count_words(3)
        (3, 3)
    """

    selector: str = "k_subsets"
    k: int = 5
    share: float | None = None
    temperature: float = 0.1
    transition: float = 0.1
    penalty: float = 10.0
    growth: float = 0.01
    anneal: int = 500

    def __post_init__(self) -> None:
        name = "RationaleConfig"
        check_choice(name, "selector", self.selector, SELECTORS)
        check_integer(name, "k", self.k, least=1)
        if self.share is not None:
            check_number(name, "share", self.share, above=0, most=1)
        check_number(name, "temperature", self.temperature, above=0)
        check_number(name, "transition", self.transition)
        check_number(name, "penalty", self.penalty, least=0)
        check_number(name, "growth", self.growth, least=0)
        check_integer(name, "anneal", self.anneal, least=0)

    def count_words(self, length: int) -> int:
        """Return how many words the rationale of a text with so many has."""
        if self.share is None:
            return min(self.k, length)
        return min(-int(-self.share * length * (1 - 1e-12) // 1), length)  # 0.1 of 30 is 3, and not 4
