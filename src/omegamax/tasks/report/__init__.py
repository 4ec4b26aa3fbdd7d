"""What all pages that compare networks share: records, table, curves, explorer, and the one file they go into."""

from omegamax.tasks.report.contenders import Contender as Contender
from omegamax.tasks.report.contenders import compare_paired as compare_paired
from omegamax.tasks.report.contenders import load_contenders as load_contenders
from omegamax.tasks.report.contenders import time_steps as time_steps
from omegamax.tasks.report.records import ModelRow as ModelRow
from omegamax.tasks.report.summary import summarise_rows as summarise_rows
