"""The README's Python runs as it is printed."""

import csv
import re
import subprocess
import sys
from pathlib import Path

import pytest
import slow

from heads.data.samples import SAMPLES

README = Path(__file__).parents[1] / "README.md"
FOUND = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.DOTALL | re.MULTILINE)
BLOCKS = [block for block in FOUND if "gradio_client" not in block]  # test_web.py asks a page


@pytest.mark.parametrize("number", slow.but(range(len(BLOCKS)), 2))
def test_a_block_of_the_readme_runs(number, tmp_path):
    with SAMPLES["sentiment"].path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    with (tmp_path / "my.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows[:121])
    command = [sys.executable, "-c", BLOCKS[number]]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
