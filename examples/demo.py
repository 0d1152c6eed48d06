"""``make demo``: a first look at Frazil."""

from importlib.metadata import version

import frazil


def main() -> None:
    """Say which Frazil this is and where it came from."""
    print(f"frazil {version('frazil')} from {frazil.__path__[0]}")


if __name__ == "__main__":
    main()
