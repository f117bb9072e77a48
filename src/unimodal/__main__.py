"""The command line as ``python -m unimodal``."""

import sys

from unimodal.cli import main

if __name__ == "__main__":
    sys.exit(main())
