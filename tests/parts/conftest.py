import pytest
from tiny_models import save_tiny

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    """A base model that came in by the ordinary door, narrow and with weights far from 0."""
    config = {"hidden_size": 8, "num_hidden_layers": 5, "initializer_range": 0.5}
    return load(str(save_tiny(tmp_path_factory.mktemp("narrow") / "bert", "bert", **config)))
