"""What holds of every error that a user can mend, whatever it says."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from heads.errors import HeadsError


@contextmanager
def refusing(
    kind: type[HeadsError], *names: str, longest: int = 400
) -> Iterator[pytest.ExceptionInfo[HeadsError]]:
    """Assert that what is within raises this class of error, in one short line.

    Args:
        names: What the line names, such as the option, the file or the nearest recipe.
    """
    with pytest.raises(kind) as caught:
        yield caught
    line = str(caught.value)
    assert type(caught.value) is kind, line
    assert caught.value.what.endswith((".", "?")), line
    assert len(line) <= longest, line
    assert "\n" not in line
    assert "Traceback" not in line
    for name in names:
        assert name in line, f"{name!r} is not named: {line}"
