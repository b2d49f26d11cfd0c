"""Parts of a benchmark as processes of their own: python -m fluxline bench --serve."""

import sys

from fluxline import _fluxline
from fluxline.errors import Error


def main() -> int:
    """Run the part that the command line names."""
    try:
        match sys.argv[1:]:
            case ["bench", "--serve", *_]:
                _fluxline.bench_serve()
            case _:
                print(
                    "python -m fluxline runs parts of fluxline.bench alone; the commands are in "
                    "the program `fluxline`",
                    file=sys.stderr,
                )
                return 2
    except Error as error:
        print(f"fluxline: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
