"""A comparison of models as one web page: records in, a file out that opens anywhere and asks no other host."""

from omegamax.tasks.vqa.report.page import write_report as write_report
from omegamax.tasks.vqa.report.records import Comparison as Comparison
from omegamax.tasks.vqa.report.records import Example as Example
from omegamax.tasks.vqa.report.records import Fit as Fit
from omegamax.tasks.vqa.report.records import Look as Look
from omegamax.tasks.vqa.report.records import Row as Row
from omegamax.tasks.vqa.report.summary import summarise as summarise
