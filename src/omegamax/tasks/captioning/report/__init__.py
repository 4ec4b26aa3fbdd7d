"""The page that compares networks which write captions: table, curves, and photographs with a map for each word."""

from omegamax.tasks.captioning.report.page import write_report as write_report
from omegamax.tasks.captioning.report.records import CaptionComparison as CaptionComparison
from omegamax.tasks.captioning.report.records import CaptionExample as CaptionExample
from omegamax.tasks.captioning.report.records import CaptionLook as CaptionLook
from omegamax.tasks.captioning.report.records import CaptionRow as CaptionRow
