"""``python -m heads`` is the same as the command `heads`."""

from heads.interfaces.cli.app import command

if __name__ == "__main__":
    raise SystemExit(command())
