"""`python -m labsupport` is the same command as `lab`."""

import sys

from labsupport.cli import main

if __name__ == "__main__":
    sys.exit(main())
