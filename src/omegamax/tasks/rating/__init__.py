"""Human evaluation: a page on which people rate captions and attention, and what their answers say."""

from omegamax.tasks.rating.answers import Ratings as Ratings
from omegamax.tasks.rating.answers import read_ratings as read_ratings
from omegamax.tasks.rating.page import write_survey as write_survey
from omegamax.tasks.rating.result import RatingRow as RatingRow
from omegamax.tasks.rating.result import measure_agreement as measure_agreement
from omegamax.tasks.rating.result import summarise_ratings as summarise_ratings
from omegamax.tasks.rating.stop_words import STOP_WORDS as STOP_WORDS
from omegamax.tasks.rating.stop_words import find_content_words as find_content_words
from omegamax.tasks.rating.survey import RatedLook as RatedLook
from omegamax.tasks.rating.survey import RatedPicture as RatedPicture
from omegamax.tasks.rating.survey import Survey as Survey
