"""``python -m kdump``: the command, where its script is not on PATH."""

import sys

from kdump.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
