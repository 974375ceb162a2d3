"""Print how many lines the parts of this repository have, beside their budgets: ``make check``."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
# A budget is a goal, not a limit: it says which part has to shrink.
BUDGETS = {"core": 45_000, "extras": 10_000, "tests": 36_000, "benchmarks": 4_000, "README": 150}


def count_lines(paths: list[Path]) -> int:
    """Return the number of lines of some text files."""
    return sum(path.read_bytes().count(b"\n") for path in paths)


def measure() -> dict[str, int]:
    """Return the lines of every part; data and kept copies of older versions do not count."""
    package, extras = list((ROOT / "heads").rglob("*.py")), ROOT / "heads" / "extras"
    tests = [path for path in (ROOT / "tests").rglob("*.py") if "kept_heads" not in path.parts]
    return {
        "core": count_lines([path for path in package if extras not in path.parents]),
        "extras": count_lines([path for path in package if extras in path.parents]),
        "tests": count_lines(tests),
        "benchmarks": count_lines(list((ROOT / "benchmarks").rglob("*.py"))),
        "README": count_lines([ROOT / "README.md"]),
    }


if __name__ == "__main__":
    for name, lines in measure().items():
        print(f"{name:<12}{lines:>8,} lines, budget {BUDGETS[name]:>7,}")
