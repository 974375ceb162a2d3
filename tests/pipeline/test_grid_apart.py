"""Heads learned from the states of all tokens see their own rows, each by its own seed."""

import threading

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heads.pipeline.grid.learn_apart import BATCH, Apart, epochs_of
from heads.pipeline.grid.learner import Chosen
from heads.pipeline.grid.lesson import Lesson, Stopped
from heads.pipeline.grid.splits import Splits
from heads.pipeline.objective import Objective
from heads.pipeline.states import States
from heads.pipeline.token_states import TokenStates

WIDTH, CLASSES, TEXTS, ROWS = 8, 3, 300, 330
CHOSEN: Chosen = {
    "standardise": False, "learning_rate": 0.03, "weight_decay": 0.01, "epochs": 9, "planned": 9,
}  # fmt: skip


class Mean(nn.Module):
    """The mean of the tokens under a linear layer; counts what it is shown."""

    shown: list[tuple[bool, Tensor]]

    def __init__(self, shown: list[tuple[bool, Tensor]], dropout: float = 0.0) -> None:
        super().__init__()
        self.shown, self.drop = shown, nn.Dropout(dropout)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, states: States) -> Tensor:
        mean = states.hidden[-1].sum(dim=1) / states.mask.sum(dim=1, keepdim=True)
        self.shown.append((self.training, mean.detach()))
        return self.head(self.drop(mean))


@pytest.fixture
def lesson() -> Lesson:
    """Texts of 1 to 9 tokens whose mean tells their class; a few rows have the text of others."""
    dice = torch.Generator().manual_seed(0)
    classes = torch.randint(0, CLASSES, (TEXTS,), generator=dice)
    lengths = torch.randint(1, 10, (TEXTS,), generator=dice)
    order = lengths.argsort(descending=True)
    starts = torch.empty_like(lengths)
    starts[order] = lengths[order].cumsum(0) - lengths[order]
    owners = order.repeat_interleave(lengths[order])
    centres = 2 * torch.randn(CLASSES, WIDTH, generator=dice)
    numbers = centres[classes[owners]] + torch.randn(len(owners), WIDTH, generator=dice)
    states = TokenStates(
        numbers=(numbers[:, None].numpy().astype(np.float16),),
        starts=starts,
        lengths=lengths,
        marks=torch.ones(len(owners), 3, dtype=torch.bool),
        layers=(1,),
        depth=2,
        engine="packed",
        precision="float32",
        says="",
    )
    index = torch.cat([torch.arange(TEXTS), torch.arange(ROWS - TEXTS)])
    index = index[torch.randperm(ROWS, generator=dice)]
    return Lesson(
        vectors=torch.empty(0, 0),
        index=index,
        targets=classes[index],
        objective=Objective(kind="one", outputs=CLASSES),
        weights=torch.ones(ROWS),
        counts=torch.ones(ROWS),
        stop=threading.Event(),
        states=states,
    )


def apart(dropout: float = 0.0) -> tuple[Apart, list[tuple[bool, Tensor]]]:
    shown: list[tuple[bool, Tensor]] = []
    return Apart(make=lambda: Mean(shown, dropout)), shown


def halves() -> tuple[Tensor, Tensor]:
    rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    return rows[:200], rows[200:]


def test_only_rows_that_are_asked_for_are_read(lesson: Lesson) -> None:
    """However many others there are, and in batches that are about full."""
    learner, shown = apart()
    rows, asked = [halves()[0][:100], halves()[0][50:120]], [halves()[1][:40], halves()[1][:7]]
    learner.learn(lesson, CHOSEN, rows, asked, [0, 1])
    learned = [len(mean) for training, mean in shown if training]
    assert sum(learned) == epochs_of(100) * (100 + 70)
    assert set(learned) == {25, 23, 24}  # 4 batches of 100, 3 of 70
    assert max(learned) <= BATCH
    assert sum(len(mean) for training, mean in shown if not training) == 40 + 7


def test_answers_stand_in_the_order_in_which_they_were_asked_for(lesson: Lesson) -> None:
    learner, _ = apart()
    train, asked = halves()
    (found,) = learner.learn(lesson, CHOSEN, [train], [asked], [0])
    module = learner.make()
    module.load_state_dict(found.state)
    assert lesson.states is not None
    for row, logits in zip(asked, found.logits, strict=True):
        with torch.no_grad():
            alone = module.eval()(lesson.states.states(lesson.index[row][None]))[0]
        assert torch.allclose(logits, alone, atol=1e-5)
    assert (found.logits.argmax(dim=1) == lesson.targets[asked]).float().mean() > 0.95


def test_a_copy_learns_the_same_whoever_learns_beside_it(lesson: Lesson) -> None:
    learner, _ = apart(dropout=0.3)
    train, asked = halves()
    rows = [train, train[:150], train]
    together = learner.learn(lesson, CHOSEN, rows, [asked] * 3, [0, 1, 2])
    for number in (0, 2):
        (alone,) = learner.learn(lesson, CHOSEN, [train], [asked], [number])
        assert torch.equal(alone.logits, together[number].logits)
        for name, tensor in alone.state.items():
            assert torch.equal(tensor, together[number].state[name])


def test_each_seed_has_an_order_of_its_own_and_every_epoch_another(lesson: Lesson) -> None:
    learner, shown = apart()
    train, asked = halves()
    orders, planned = [], epochs_of(len(train))
    for seed in (0, 1):
        shown.clear()
        learner.learn(lesson, CHOSEN, [train], [asked], [seed])
        batches = [float(mean.sum()) for training, mean in shown if training]
        epochs = [tuple(batches[start : start + 7]) for start in range(0, len(batches), 7)]
        assert len(epochs) == planned
        assert len({frozenset(epoch) for epoch in epochs}) == 1
        orders += epochs
    assert len(set(orders)) == 2 * planned


def test_what_is_tried_shares_its_batches(lesson: Lesson, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every point of the search sees the same rows, and each batch is read once for all."""
    read: list[int] = []
    states = TokenStates.states

    def counted(self: TokenStates, texts: Tensor) -> States:
        read.append(len(texts))
        return states(self, texts)

    monkeypatch.setattr(TokenStates, "states", counted)
    learner, shown = apart(dropout=0.3)
    train, rest = halves()
    splits = Splits(kind="splits", search=train, development=rest, train=(train,), test=(rest,))
    tried = list(learner.search(lesson, splits))
    epochs = max(point.epoch for point in tried)
    assert sum(read) == epochs * ROWS
    assert sum(len(mean) for _, mean in shown) == 4 * epochs * ROWS
    assert max(point.score for point in tried) > 0.95


def test_it_ends_where_that_is_asked_for(lesson: Lesson) -> None:
    learner, shown = apart()
    train, asked = halves()
    lesson.stop.set()
    with pytest.raises(Stopped):
        learner.learn(lesson, CHOSEN, [train], [asked], [0])
    assert not shown
