"""``python -m heads`` is the same as the command `heads`."""

from heads.interfaces.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
