"""`python -m labsupport.chunklab`: the same as `lab chunklab`."""

import argparse
import sys

from labsupport.cli import chunklab
from labsupport.errors import LabError


def main(argv=None):
    """Return the exit code: 0 done, 1 a problem was found, 2 wrong use."""
    parser = argparse.ArgumentParser(prog="python -m labsupport.chunklab", description=chunklab.__doc__.splitlines()[0])
    chunklab.add_arguments(parser)
    try:
        return chunklab.run(parser.parse_args(argv))
    except LabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
