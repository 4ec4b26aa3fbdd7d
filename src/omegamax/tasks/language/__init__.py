"""Language models: networks trained on text, measured, and asked to go on with it."""

from omegamax.tasks.language.data import LanguageData as LanguageData
from omegamax.tasks.language.scores import LanguageScores as LanguageScores
from omegamax.tasks.language.sets import EmbeddedReviewsData as EmbeddedReviewsData
from omegamax.tasks.language.sets import IMDBReviewsData as IMDBReviewsData
from omegamax.tasks.language.sets import TextFilesData as TextFilesData
from omegamax.tasks.language.task import LanguageTask as LanguageTask
from omegamax.tasks.language.write import Continuation as Continuation
from omegamax.tasks.language.write import WriteConfig as WriteConfig
from omegamax.tasks.language.write import write as write
