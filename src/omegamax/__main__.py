"""``python -m omegamax``."""

import sys

from omegamax.cli.main import main

sys.exit(main())
