"""The promises of docs/PROMISES.md, each measured by a module of its own; ``make prove``."""
