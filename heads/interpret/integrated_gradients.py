"""Integrated gradients of several heads at once, from a text of blanks to the text itself.

The straight path between the two is summed up at Gauss-Legendre nodes. The gradient at a node is
the base model's own there, times the head's average over the node's stretch of the path: a maximum
or a ReLU changes its gradient in jumps, and one node a stretch would miss where. States between two
nodes are interpolated. The base model reads every node once for all heads.
Legend: c classes, s nodes, m places within a stretch, t tokens, e width of a token's embedding.

Source: Axiomatic Attribution for Deep Networks (Sundararajan et al. 2017, arXiv 1703.01365).
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from heads import interruption
from heads.backbone.backbone import Backbone
from heads.backbone.states import Encoded, States
from heads.classifier.module import RecipeModule
from heads.errors import ModelError

# --- A way into a base model that can be differentiated: embeddings in the place of tokens.

NOT_TO_BE_HAD = "Look at its pooling's weights, or choose another base model."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class InputEmbeddings:
    """One text at the door of a base model: what is looked up of it, and of nothing.

    Attributes:
        special: (t,), true on special tokens; they are the same in the baseline.
        embeddings: (1, t, e), what the model looks up of its tokens.
        baseline: (1, t, e), the same with every other token replaced by the blank.
        blank: The token that stands for no word, as a reader would write it.
    """

    backbone: Backbone
    encoded: Encoded
    special: Tensor
    embeddings: Tensor
    baseline: Tensor
    blank: str

    def states(self, embeddings: Tensor) -> States:
        """The states of copies of the text with other embeddings (s, t, e), differentiable.

        Raises:
            ModelError: The base model does not look its tokens up in a table.
        """
        copies = len(embeddings)
        given = {
            name: tensor.expand(copies, -1)
            for name, tensor in self.backbone.filled([self.encoded]).items()
        }
        with _looked_up(self.backbone, given["input_ids"], embeddings) as used:
            output = self.backbone.answer(given)
        if not used:
            raise _refusal(self.backbone)
        numbers, mask = given["input_ids"], given["attention_mask"]
        return self.backbone.build_states(output, numbers, mask, self.special)


def input_embeddings(backbone: Backbone, encoded: Encoded) -> InputEmbeddings:
    """Finds the embeddings of a text's tokens and those of its baseline.

    The baseline keeps length, positions and special tokens, and has the mask token at every
    other place, where the tokenizer has one: models trained on masked words (BERT, RoBERTa) have
    learned to read it as "some word", while others, such as ELECTRA's discriminator, may never
    have read it. Where there is none, as in most decoders, it is the token that fills a batch up.

    Source: BERT (Devlin et al. 2019), section 3.1, task 1; ELECTRA (Clark et al. 2020), section 1:
    the discriminator reads sampled tokens, not [MASK].

    Raises:
        ModelError: The base model has no table of tokens.
    """
    table = _tables(backbone)[0]
    numbers = torch.tensor([encoded.inputs["input_ids"]], device=backbone.device)
    special = torch.tensor(encoded.special, dtype=torch.bool, device=backbone.device)
    mask = backbone.tokenizer.mask_token_id
    blank = backbone.pad if mask is None else mask
    blanked = torch.where(special, numbers, blank)
    with torch.no_grad():
        embeddings, baseline = table(numbers), table(blanked)
    return InputEmbeddings(
        backbone=backbone,
        encoded=encoded,
        special=special,
        embeddings=embeddings,
        baseline=baseline,
        blank=backbone.tokenizer.decode([blank]).strip() or "the padding token",
    )


def _tables(backbone: Backbone) -> list[nn.Module]:
    """The modules that look tokens up: one, or an encoder's and a decoder's with one table."""
    try:
        weight = backbone.model.get_input_embeddings().weight
    except (NotImplementedError, AttributeError):
        raise _refusal(backbone) from None
    return [
        module
        for module in backbone.model.modules()
        if isinstance(module, nn.Embedding) and module.weight.data_ptr() == weight.data_ptr()
    ]


def _refusal(backbone: Backbone) -> ModelError:
    what = f"Attributions are not to be had for {backbone.id}: it has no table of tokens."
    return ModelError(what, NOT_TO_BE_HAD)


@contextmanager
def _looked_up(backbone: Backbone, numbers: Tensor, embeddings: Tensor) -> Iterator[list[int]]:
    """Look those embeddings up in this thread alone, and yield an entry for each time."""
    used: list[int] = []
    mine = threading.get_ident()  # the model is shared: others may read with it now
    tables = _tables(backbone)
    own = {id(table) for table in tables}  # and who copies it now, copies the hook

    def replaced(table: nn.Module, given: Any, found: Tensor) -> Tensor:
        if threading.get_ident() != mine or id(table) not in own:
            return found
        other = _replaced(given[0], found, numbers, embeddings)
        if other is None:
            return found
        used.append(1)
        return other

    hooks = [table.register_forward_hook(replaced) for table in tables]
    try:
        yield used
    finally:
        for hook in hooks:
            hook.remove()


def _replaced(asked: Tensor, found: Tensor, numbers: Tensor, embeddings: Tensor) -> Tensor | None:
    """The embeddings of tokens that are asked for, if they are those of the text."""
    if torch.equal(asked, numbers):
        return embeddings
    if torch.equal(asked, numbers.T):  # XLNet lays texts out in columns
        return embeddings.transpose(0, 1)
    if asked.shape == numbers.shape and torch.equal(asked[:, 1:], numbers[:, :-1]):
        return torch.cat([found[:, :1], embeddings[:, :-1]], dim=1)  # a decoder, a place later
    return None


PLACES = 16
TOKENS_AT_ONCE = 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EmbeddingGradients:
    """What a small change of a text's embeddings does to what is explained, and by which states.

    Attributes:
        gradients: For each text (t, e).
        through: For each state tensor of the texts, whether the head reads it.
    """

    gradients: tuple[Tensor, ...]
    through: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExplainedLogits:
    """What is explained of one head: a sum of its logits with weights (c,)."""

    module: RecipeModule
    weights: Tensor
    pull: EmbeddingGradients


def embedding_gradients(
    module: RecipeModule, weights: Tensor, entries: Sequence[InputEmbeddings]
) -> EmbeddingGradients | None:
    """The gradient of a sum of logits, weights (c,), at the text itself; None if it has none."""
    with torch.enable_grad():
        rows = [entry.embeddings.clone().requires_grad_() for entry in entries]
        given = [entry.states(row) for entry, row in zip(entries, rows, strict=True)]
        carriers = [tensor for states in given for tensor in _carriers(states)]
        leaves = [tensor.detach().requires_grad_() for tensor in carriers]
        rest = iter(leaves)
        cut = [_with(one, [next(rest) for _ in _carriers(one)]) for one in given]
        logits = module(*cut)
        if not logits.requires_grad:
            return None
        gradients = torch.autograd.grad(logits[0] @ weights, leaves, allow_unused=True)
        through = tuple(gradient is not None for gradient in gradients)
        read = [tensor for tensor, used in zip(carriers, through, strict=True) if used]
        known = [gradient for gradient in gradients if gradient is not None]
        found = torch.autograd.grad(read, rows, known, allow_unused=True)
    return EmbeddingGradients(
        gradients=tuple(row[0] for row in _whole(found, rows)), through=through
    )


def _whole(found: Sequence[Tensor | None], rows: Sequence[Tensor]) -> list[Tensor]:
    """Gradients, 0 where there is none."""
    pairs = zip(found, rows, strict=True)
    return [torch.zeros_like(row) if one is None else one for one, row in pairs]


def integrated(
    aims: Sequence[ExplainedLogits], entries: Sequence[InputEmbeddings], steps: int
) -> list[list[Tensor]]:
    """What every token adds to each aim, from all blanks to the text: for each aim (t,) a text.

    Args:
        entries: The text; of a siamese pair both texts.
        steps: The number of nodes.
    """
    longest = max(entry.embeddings.shape[1] for entry in entries)
    batches = torch.arange(steps).split(max(2, TOKENS_AT_ONCE // longest))
    added = [_added(aims, entries, batch, steps) for batch in batches]
    return [
        [torch.stack(parts).sum(dim=0) for parts in zip(*of_aim, strict=True)]
        for of_aim in zip(*added, strict=True)
    ]


@torch.enable_grad()
def _added(
    aims: Sequence[ExplainedLogits], entries: Sequence[InputEmbeddings], batch: Tensor, steps: int
) -> list[list[Tensor]]:
    """The same along the stretches of some nodes, by their numbers (s,)."""
    nodes, weights = _gauss_legendre(steps)
    device = entries[0].embeddings.device
    node, weight = nodes[batch, None, None].to(device).float(), weights[batch].to(device).float()
    ways = [entry.embeddings - entry.baseline for entry in entries]  # (1, t, e) each
    rows = [
        (entry.baseline + node * way).requires_grad_()  # (s, t, e)
        for entry, way in zip(entries, ways, strict=True)
    ]
    interruption.check()
    given = [entry.states(row) for entry, row in zip(entries, rows, strict=True)]
    carriers = [tensor for states in given for tensor in _carriers(states)]
    left, right, share = (one.to(device) for one in _places(batch, steps))
    found = []
    for aim in aims:
        interruption.check()
        read = [tensor for tensor, used in zip(carriers, aim.pull.through, strict=True) if used]
        gradients = _gradients_between(aim, given, left, right, share)
        pulled = torch.autograd.grad(read, rows, gradients, retain_graph=True, allow_unused=True)
        found.append(
            [
                (torch.tensordot(weight, gradient, dims=1) * way[0]).sum(dim=-1)  # (t,)
                for gradient, way in zip(_whole(pulled, rows), ways, strict=True)
            ]
        )
    return found


def _gradients_between(
    aim: ExplainedLogits, given: Sequence[States], left: Tensor, right: Tensor, share: Tensor
) -> list[Tensor]:
    """How an aim depends on the states that it reads: the average over each node's stretch."""
    used = iter(aim.pull.through)
    leaves, moved = [], []
    for states in given:
        between = []
        for tensor in _carriers(states):
            tensor = tensor.detach()
            if next(used):
                ratio = share.view(-1, *[1] * (tensor.dim() - 1))
                tensor = torch.lerp(tensor[left], tensor[right], ratio).requires_grad_()
                leaves.append(tensor)
            else:
                tensor = tensor[:1].expand(len(left), *tensor.shape[1:])
            between.append(tensor)
        moved.append(_with(states, between))
    gradients = torch.autograd.grad((aim.module(*moved) @ aim.weights).sum(), leaves)
    return [gradient.unflatten(0, (-1, PLACES)).mean(dim=1) for gradient in gradients]


def _carriers(states: States) -> list[Tensor]:
    """The state tensors through which a head can be reached."""
    rest = [tensor for tensor in (states.pooler, states.decoder) if tensor is not None]
    return [*states.hidden, *rest]


def _with(states: States, carriers: list[Tensor]) -> States:
    """The states of one text with other tensors, as many rows as those have."""
    rows, layers = len(carriers[0]), len(states.hidden)
    rest = carriers[layers:]
    others = {
        name: tensor[:1].expand(rows, -1)
        for name in ("mask", "unpadded", "content", "eos", "decoder_mask")
        if (tensor := getattr(states, name)) is not None
    }
    return replace(
        states,
        hidden=tuple(carriers[:layers]),
        pooler=None if states.pooler is None else rest[0],
        decoder=None if states.decoder is None else rest[-1],
        **others,
    )


def _places(batch: Tensor, steps: int) -> tuple[Tensor, Tensor, Tensor]:
    """The places within the stretches of some nodes, (s m,) each, by the nodes beside them.

    Args:
        batch: (s,), the numbers of those nodes, one after the other.

    Returns:
        The node on the left, the one on the right, and how far between the two it lies: beyond
        them, where a stretch juts out over the first or the last node.
    """
    nodes, weights = _gauss_legendre(steps)
    along, length = nodes[batch], weights[batch, None]  # a stretch is as long as its weight
    begin = weights.cumsum(dim=0)[batch, None] - length
    places = (begin + length * (torch.arange(PLACES) + 0.5) / PLACES).flatten()
    right = torch.searchsorted(along, places).clamp(min(1, len(along) - 1), len(along) - 1)
    left = (right - 1).clamp(min=0)
    gap = along[right] - along[left]
    share = torch.where(gap > 0, (places - along[left]) / gap.clamp(min=1e-12), 0.0)
    return left, right, share.float()


@cache
def _gauss_legendre(steps: int) -> tuple[Tensor, Tensor]:
    """Nodes on 0 to 1 and their weights, which sum to 1, (s,) each."""
    import numpy

    nodes, weights = numpy.polynomial.legendre.leggauss(steps)
    return torch.from_numpy((nodes + 1) / 2), torch.from_numpy(weights / 2)
