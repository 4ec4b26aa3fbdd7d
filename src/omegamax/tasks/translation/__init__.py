"""Translation: networks trained, measured, searched and looked into."""

from omegamax.tasks.translation.bleu import BLEUReport as BLEUReport
from omegamax.tasks.translation.bleu import compare_bleu as compare_bleu
from omegamax.tasks.translation.bleu import measure_bleu as measure_bleu
from omegamax.tasks.translation.coverage import WordAligner as WordAligner
from omegamax.tasks.translation.data import TranslationData as TranslationData
from omegamax.tasks.translation.search import Hypothesis as Hypothesis
from omegamax.tasks.translation.search import SearchConfig as SearchConfig
from omegamax.tasks.translation.search import Translation as Translation
from omegamax.tasks.translation.search import translate as translate
from omegamax.tasks.translation.sets import IWSLTData as IWSLTData
from omegamax.tasks.translation.sets import Multi30kData as Multi30kData
from omegamax.tasks.translation.sets import PairFilesData as PairFilesData
from omegamax.tasks.translation.sets import PairTableData as PairTableData
from omegamax.tasks.translation.sets import TinyPairsData as TinyPairsData
from omegamax.tasks.translation.task import TranslationTask as TranslationTask
