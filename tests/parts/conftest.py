from collections.abc import Iterator

import pytest
import torch
from tiny_models import save_modules
from transformers import BertConfig, BertModel, BertTokenizer

from heads.backbone.backbone import Backbone
from heads.backbone.loading import load

WORDS = ["a", "dog", "barks", "at", "the", "old", "cat", "and", "it", "runs"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """These tensors are so small that threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Backbone:
    """A base model that came in by the ordinary door, very small and with random weights."""
    folder = tmp_path_factory.mktemp("tiny-bert")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=len(VOCABULARY),
            hidden_size=8,
            num_hidden_layers=5,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=64,
            initializer_range=0.5,
        )
        BertModel(config).save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(VOCABULARY)}
    BertTokenizer(vocab=vocabulary).save_pretrained(folder)
    save_modules(folder)
    return load(str(folder))
