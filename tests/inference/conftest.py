"""The runs whose heads the tests of inference ask, each trained once."""

import pytest
from few_runs import FewRuns


@pytest.fixture(scope="session")
def run(tiny, tmp_path_factory: pytest.TempPathFactory) -> FewRuns:
    return FewRuns(tmp_path_factory.mktemp("runs"), tiny())
