"""VQA-v2 and VQA-HAT as distributed: questions, annotations, features, human maps; accuracy, results files."""

from omegamax.data.vqa2.accuracy import Evaluation as Evaluation
from omegamax.data.vqa2.accuracy import accuracy as accuracy
from omegamax.data.vqa2.accuracy import answer_scores as answer_scores
from omegamax.data.vqa2.accuracy import evaluate as evaluate
from omegamax.data.vqa2.answers import normalise_answer as normalise_answer
from omegamax.data.vqa2.dataset import VQA2 as VQA2
from omegamax.data.vqa2.dictionary import answer_dictionary as answer_dictionary
from omegamax.data.vqa2.dictionary import load_dictionary as load_dictionary
from omegamax.data.vqa2.dictionary import save_dictionary as save_dictionary
from omegamax.data.vqa2.features import Features as Features
from omegamax.data.vqa2.features import GridFeatures as GridFeatures
from omegamax.data.vqa2.features import read_features as read_features
from omegamax.data.vqa2.features import read_grid as read_grid
from omegamax.data.vqa2.features import write_grid as write_grid
from omegamax.data.vqa2.files import Annotation as Annotation
from omegamax.data.vqa2.files import Question as Question
from omegamax.data.vqa2.files import read_annotations as read_annotations
from omegamax.data.vqa2.files import read_questions as read_questions
from omegamax.data.vqa2.human import HumanAttention as HumanAttention
from omegamax.data.vqa2.regions import Regions as Regions
from omegamax.data.vqa2.regions import read_regions as read_regions
from omegamax.data.vqa2.results import read_results as read_results
from omegamax.data.vqa2.results import write_results as write_results
