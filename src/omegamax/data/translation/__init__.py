"""Sentences in two languages: readers of corpora, subwords, and the numbers that networks take."""

from omegamax.data.subwords import BOS as BOS
from omegamax.data.subwords import EOS as EOS
from omegamax.data.subwords import PAD as PAD
from omegamax.data.subwords import UNK as UNK
from omegamax.data.subwords import Subwords as Subwords
from omegamax.data.translation.draws import SubwordDraws as SubwordDraws
from omegamax.data.translation.files import PairFiles as PairFiles
from omegamax.data.translation.files import PairTable as PairTable
from omegamax.data.translation.form import TextForm as TextForm
from omegamax.data.translation.iwslt import IWSLT as IWSLT
from omegamax.data.translation.lexicon import Lexicon as Lexicon
from omegamax.data.translation.multi30k import MULTI30K_TESTS as MULTI30K_TESTS
from omegamax.data.translation.multi30k import Multi30k as Multi30k
from omegamax.data.translation.packed import PackedPairs as PackedPairs
from omegamax.data.translation.packed import PairWarning as PairWarning
from omegamax.data.translation.packed import collate_pairs as collate_pairs
from omegamax.data.translation.packed import pad_rows as pad_rows
from omegamax.data.translation.pair import ParallelCorpus as ParallelCorpus
from omegamax.data.translation.pair import SentencePair as SentencePair
from omegamax.data.translation.tiny import TinyPairs as TinyPairs
from omegamax.data.translation.vocabulary import PairVocabulary as PairVocabulary
