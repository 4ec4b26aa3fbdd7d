"""The page that shows what language models write, beside the numbers they have."""

from omegamax.tasks.language.report.page import page as page
from omegamax.tasks.language.report.page import write_report as write_report
from omegamax.tasks.language.report.records import LanguageComparison as LanguageComparison
from omegamax.tasks.language.report.records import LanguageExample as LanguageExample
from omegamax.tasks.language.report.records import LanguageRow as LanguageRow
from omegamax.tasks.language.report.records import WrittenText as WrittenText
