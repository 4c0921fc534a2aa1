"""`python -m labsupport.loaderbench MODULE:FACTORY`: the same as `lab loaderbench`."""

import sys

from labsupport.cli import main

if __name__ == "__main__":  # a spawned worker imports this module again
    sys.exit(main(["loaderbench", *sys.argv[1:]]))
