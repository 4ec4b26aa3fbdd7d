"""Predictive translation: somebody types, and sees all words that can follow."""

from omegamax.tasks.translation.typing.next_words import NextWord as NextWord
from omegamax.tasks.translation.typing.next_words import NextWords as NextWords
from omegamax.tasks.translation.typing.next_words import find_next_words as find_next_words
from omegamax.tasks.translation.typing.server import TypingServer as TypingServer
