"""Arguments of distributions are checked, whatever ran before."""

import pytest
from torch.distributions import Distribution


@pytest.fixture(autouse=True)
def _validation():
    # torch.compile turns the checks off for the whole process the first time it is used.
    Distribution.set_default_validate_args(True)
