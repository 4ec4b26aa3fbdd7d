"""A comparison of networks that read texts, as one web page: records in, a file out that opens anywhere."""

from omegamax.tasks.text.report.page import write_report as write_report
from omegamax.tasks.text.report.records import PairLook as PairLook
from omegamax.tasks.text.report.records import TextComparison as TextComparison
from omegamax.tasks.text.report.records import TextExample as TextExample
from omegamax.tasks.text.report.records import TextRow as TextRow
from omegamax.tasks.text.report.records import WordLook as WordLook
