"""Classes of texts: networks trained, measured, and looked into."""

from omegamax.tasks.text.data import TextData as TextData
from omegamax.tasks.text.sets import IMDBData as IMDBData
from omegamax.tasks.text.sets import ReviewsData as ReviewsData
from omegamax.tasks.text.sets import SentencesData as SentencesData
from omegamax.tasks.text.sets import TableData as TableData
from omegamax.tasks.text.sets import YelpHATData as YelpHATData
from omegamax.tasks.text.sets_of_pairs import SentencePairsData as SentencePairsData
from omegamax.tasks.text.sets_of_pairs import SICKData as SICKData
from omegamax.tasks.text.task import TextTask as TextTask
