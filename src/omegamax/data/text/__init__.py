"""Texts and their classes: readers of sets, words, and the numbers that networks take."""

from omegamax.data.text.imdb import IMDB as IMDB
from omegamax.data.text.packed import NO_LABEL as NO_LABEL
from omegamax.data.text.packed import PackedTexts as PackedTexts
from omegamax.data.text.packed import TextWarning as TextWarning
from omegamax.data.text.packed import collate_texts as collate_texts
from omegamax.data.text.packed import collect_vocabulary as collect_vocabulary
from omegamax.data.text.pairs import SentencePairs as SentencePairs
from omegamax.data.text.reviews import Reviews as Reviews
from omegamax.data.text.rows import read_rows as read_rows
from omegamax.data.text.sample import TextSample as TextSample
from omegamax.data.text.sentences import SENTENCES as SENTENCES
from omegamax.data.text.sentences import Sentences as Sentences
from omegamax.data.text.sick import SICK as SICK
from omegamax.data.text.table import TextTable as TextTable
from omegamax.data.text.texts import Texts as Texts
from omegamax.data.text.words import EMPTY as EMPTY
from omegamax.data.text.words import split_words as split_words
from omegamax.data.text.yelp_hat import YELP_HAT as YELP_HAT
from omegamax.data.text.yelp_hat import YelpHAT as YelpHAT
