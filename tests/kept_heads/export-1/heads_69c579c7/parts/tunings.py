"""What is learned of the base model besides the head: the option `tune=` of a recipe.

A tuning is a function of the name of one of the base model's parameters and of the module that
holds it, which says whether the parameter is learned. It is asked only about parameters on which
the pooled vector depends: an unused pooler is never learned.

What sets ways of learning apart besides stands in the decorator: see `Tuning` of `registry.py`.
How much higher their learning rates are than those of learning everything was measured: on 400 rows
of trec6 the best of three rates was the middle or the upper one of each way.
"""

from typing import Any

from heads_69c579c7.parts.registry import tuning


@tuning(title="Head alone")
def frozen(name: str, module: Any) -> bool:
    """The base model stays as it is, and the head alone is learned.

    Source: feature-based use, section 5.3 of BERT (Devlin et al. 2019); linear probing
    """
    return False


@tuning(title="Last {layers} layers", noun="the last {layers} layers", above=True, rate=3.0)
def last(name: str, module: Any, *, layers: int = 2) -> bool:
    """The last {layers} layers of the base model are learned together with the head.

    Everything below them stays as it is and is computed once.

    Source: Lee et al. 2019 (arXiv 1911.03090); Transformers' users freeze `model.encoder.layer[:k]`
    """
    return True


@tuning(title="LoRA, rank {rank}", noun="LoRA of rank {rank}", adapter=True, rate=20.0)
def lora(name: str, module: Any, *, rank: int = 8) -> bool:
    """Every linear layer of the base model gets an addition of rank {rank}, learned with the head.

    Formula: W + (α / r) B A, α = 2 r
    Source: Hu et al. 2021 (arXiv 2106.09685), by PEFT; on all linear layers, and at some
        ten times the learning rate of everything, as Schulman et al. 2025 (LoRA Without Regret).
    """
    return type(module).__name__ in ("Linear", "Conv1D") and name.endswith("weight")


@tuning(title="Everything", noun="everything")
def full(name: str, module: Any) -> bool:
    """The whole base model is learned together with the head.

    Source: BERT (Devlin et al. 2019)
    """
    return True


@tuning(title="Head first, then all", noun="the head first, then everything", probed=True)
def lpft(name: str, module: Any) -> bool:
    """The head is learned on the frozen base model first, and then everything from there.

    A new head's first gradients are of no use to the base model, and turn what it has learned.

    Source: linear probing, then fine-tuning (Kumar et al. 2022, arXiv 2202.10054)
    """
    return True


@tuning(title="Biases", noun="the biases", rate=30.0)
def bitfit(name: str, module: Any) -> bool:
    """Only the biases of the base model are learned together with the head.

    Source: BitFit (Ben Zaken et al. 2022, arXiv 2106.10199)
    """
    return name.endswith("bias")


@tuning(title="Layer norms", noun="the layer norms", rate=100.0)
def layernorm(name: str, module: Any) -> bool:
    """Only the scales and shifts of the base model's normalisations are learned with the head.

    Source: Qi et al. 2022 (arXiv 2211.00635); Lu et al. 2021 (arXiv 2103.05247)
    """
    return "norm" in type(module).__name__.lower()


@tuning(
    title="Pairs first (SetFit)",
    noun="everything by pairs of texts",
    paired=True,
    library="setfit",
    rate=0.3,
)
def setfit(name: str, module: Any) -> bool:
    """The base model is learned on pairs of texts, of one class or of two; then the head on it.

    Texts of one class are drawn together and texts of different classes apart, by the cosine of
    what the recipe reads; the head is fitted to that as to a frozen base model's vectors. By the
    library of that name, which is installed by itself: `pip install setfit`.

    Formula: loss of a pair = (cos(u, v) − [u and v are of one class])²
    Source: SetFit (Tunstall et al. 2022, arXiv 2209.11055), by its library
    """
    return True
