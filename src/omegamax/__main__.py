"""``python -m omegamax``."""

import sys

from omegamax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
