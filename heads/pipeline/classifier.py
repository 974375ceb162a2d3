"""A recipe on a base model: what it reads and its head, as one module; and trained, with scores.

Legend: n texts, w width of the pooled vector, c classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heads.errors import LimitError, RecipeError
from heads.parts.menu import Order, resolve
from heads.pipeline.backbone import Backbone
from heads.pipeline.features import Reader
from heads.pipeline.metrics import Scores
from heads.pipeline.states import States
from heads.recipe import Recipe
from heads.settings import Limits, Training


class Classifier(nn.Module):
    """Token states to logits (n, c). Both halves keep their own names: `reader`, `head`.

    Attributes:
        pretrained: The tensors of the head that the base model brought along.
    """

    def __init__(self, order: Order, backbone: Backbone, classes: int) -> None:
        super().__init__()
        self.reader = Reader(order, backbone)
        self.head: nn.Sequential = order.head.make(self.reader.width, classes, **order.head_options)
        self.pretrained = pretrained_tensors(order, backbone, self.head)
        own = self.head.state_dict()
        for name in self.pretrained:
            own[name].copy_(backbone.pooler_weights[name])

    def forward(self, states: States) -> Tensor:
        return self.head(self.reader(states).vectors)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedHead:
    """A classifier with what it was trained on and how well it did.

    Attributes:
        recipe: The recipe in its canonical form.
        model: The id of the base model.
        classes: The names of the classes, in the order of the logits.
        many: Whether any number of classes may apply: sigmoid instead of softmax.
        trained_on: The name of the data.
        rows: How many rows it was trained on.
        scores: Its scores on the rows held out.
        training: The settings.
        module: The trained module, in evaluation mode.
    """

    recipe: Recipe
    model: str
    classes: tuple[str, ...]
    many: bool
    trained_on: str
    rows: int
    scores: Scores
    training: Training
    module: Classifier

    @property
    def parameters(self) -> int:
        """How many numbers were learned or solved for, the pooling's included."""
        return sum(tensor.numel() for tensor in self.module.parameters())


def pretrained_tensors(order: Order, backbone: Backbone, chain: nn.Sequential) -> tuple[str, ...]:
    """The names of the head's tensors that the base model has pretrained, of the same shape."""
    layer = order.head.from_base
    if not layer:
        return ()
    offered = backbone.pooler_weights
    return tuple(
        name
        for name, tensor in chain.state_dict().items()
        if name.startswith(f"{layer}.") and name in offered and offered[name].shape == tensor.shape
    )


def assemble(
    recipe: Recipe | str, backbone: Backbone, classes: int, *, many: bool, limits: Limits
) -> Classifier:
    """Builds a recipe, untrained, after counting it without memory.

    Raises:
        RecipeError: The recipe does not fit the base model or the labels.
        LimitError: The head would be too large for this place.
    """
    order = resolve(recipe)
    if many and order.head.single_label:
        what = f"{order.head.name} gives one label a text, and these texts may have several."
        raise RecipeError(what, "Choose another head, for example linear or logistic.")
    width = Reader(order, backbone).width
    if width > limits.pooled_width:
        raise LimitError(
            f"{order.recipe} would read {width:,} numbers a text; "
            f"this place allows {limits.pooled_width:,}.",
            "Choose a smaller option or another pooling.",
        )
    size = sum(tensor.numel() for tensor in sketch(order, width, classes).parameters())
    if size > limits.head_parameters:
        raise LimitError(
            f"{order.recipe} would have {size:,} parameters on {width:,} numbers a text; "
            f"this place allows {limits.head_parameters:,}.",
            f"Choose a smaller head, for example {order.recipe.pooling}+linear.",
        )
    return Classifier(order, backbone, classes)


def sketch(order: Order, width: int, classes: int) -> nn.Sequential:
    """A head's chain on the meta device: shapes and names, without memory."""
    with torch.device("meta"):
        return order.head.make(width, classes, **order.head_options)
