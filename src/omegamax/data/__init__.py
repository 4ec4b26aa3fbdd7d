"""Questions about pictures: the record that all sets share, its numbers, and the sets themselves."""

from omegamax.data.collate import Collate as Collate
from omegamax.data.collate import pool as pool
from omegamax.data.sample import KINDS as KINDS
from omegamax.data.sample import REGIONS as REGIONS
from omegamax.data.sample import Sample as Sample
from omegamax.data.vocabulary import Vocabulary as Vocabulary
from omegamax.data.vocabulary import tokenise as tokenise
