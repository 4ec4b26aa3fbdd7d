"""The page that compares networks that translate: its records, its table, its HTML."""

from omegamax.tasks.translation.report.page import write_report as write_report
from omegamax.tasks.translation.report.records import TranslationComparison as TranslationComparison
from omegamax.tasks.translation.report.records import TranslationExample as TranslationExample
from omegamax.tasks.translation.report.records import TranslationLook as TranslationLook
from omegamax.tasks.translation.report.records import TranslationRow as TranslationRow
