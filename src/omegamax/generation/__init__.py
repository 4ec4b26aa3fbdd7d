"""Decoding with zeros: sampling, exact beams and evaluation of models that give most tokens no probability at all."""

from omegamax.generation._beam import beam_search as beam_search
from omegamax.generation._beam import greedy as greedy
from omegamax.generation._log_probabilities import LogitsProcessor as LogitsProcessor
from omegamax.generation._log_probabilities import log_probabilities as log_probabilities
from omegamax.generation._sample import sample as sample
from omegamax.generation._sequences import Beams as Beams
from omegamax.generation._sequences import Sequences as Sequences
from omegamax.generation._support import Support as Support
from omegamax.generation._support import support as support
from omegamax.generation._truncation import Truncation as Truncation
from omegamax.metrics import best_epsilon as best_epsilon
from omegamax.metrics import distinct as distinct
from omegamax.metrics import epsilon_perplexity as epsilon_perplexity
from omegamax.metrics import jensen_shannon_score as jensen_shannon_score
from omegamax.metrics import ngram_repetition as ngram_repetition
from omegamax.metrics import rep as rep
from omegamax.metrics import sparsemax_score as sparsemax_score
from omegamax.metrics import wrep as wrep
