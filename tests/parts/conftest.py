from collections.abc import Iterator

import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizer

from heads.pipeline.backbone import Backbone

WORDS = ["a", "dog", "barks", "at", "the", "old", "cat", "and", "it", "runs"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """These tensors are so small that threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def backbone() -> Backbone:
    """A base model like any other, only very small and with random weights."""
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
        model = BertModel(config).eval().requires_grad_(False)
    return Backbone(
        id="tiny",
        revision="0",
        model_type="bert",
        width=8,
        layers=5,
        parameters=sum(weight.numel() for weight in model.parameters()),
        pooler="pretrained",
        pooler_weights={f"pooler.{name}": t for name, t in model.pooler.state_dict().items()},
        tokens=64,
        model=model,
        tokenizer=BertTokenizer(vocab={word: number for number, word in enumerate(VOCABULARY)}),
    )
