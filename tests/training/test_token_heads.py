"""Heads learned from the states of all tokens see their own rows, each by its own seed."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from loops import collect
from tolerances import assert_same_training
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from heads.backbone.states import States
from heads.data.splits import Splits
from heads.features.token_states import TokenStates
from heads.interruption import Interrupted
from heads.problem import SINGLE_LABEL
from heads.training.fitters import successive_halving
from heads.training.fitters.base import Chosen, SearchResult, TriedSettings
from heads.training.fitters.batched import TOKEN_HEADS
from heads.training.fitters.token_heads import BATCH, TokenAdamWFitter
from heads.training.objective import Objective
from heads.training.task import TrainingTask

WIDTH, CLASSES, TEXTS, ROWS = 8, 3, 300, 330
CHOSEN: Chosen = {
    "standardise": False, "learning_rate": 0.03, "weight_decay": 0.01, "epochs": 9.0,
}  # fmt: skip
FOUND = SearchResult(
    chosen=CHOSEN, point=TriedSettings(settings=CHOSEN, step=0, score=0.0, loss=0.0)
)


class Shown(list[tuple[bool, Tensor]]):
    """What a module and its copies are shown."""

    def __deepcopy__(self, memo: object) -> "Shown":
        return self


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
def task() -> TrainingTask:
    """Texts of 1 to 9 tokens whose mean tells their class; a few rows have the text of others."""
    rng = torch.Generator().manual_seed(0)
    classes = torch.randint(0, CLASSES, (TEXTS,), generator=rng)
    lengths = torch.randint(1, 10, (TEXTS,), generator=rng)
    order = lengths.argsort(descending=True)
    starts = torch.empty_like(lengths)
    starts[order] = lengths[order].cumsum(0) - lengths[order]
    owners = order.repeat_interleave(lengths[order])
    centres = 2 * torch.randn(CLASSES, WIDTH, generator=rng)
    numbers = centres[classes[owners]] + torch.randn(len(owners), WIDTH, generator=rng)
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
    index = index[torch.randperm(ROWS, generator=rng)]
    objective, targets = Objective(problem=SINGLE_LABEL, outputs=CLASSES), classes[index]
    nothing = torch.empty(0, 0)
    return TrainingTask.of_rows(nothing, targets, objective, index=index, states=states)


def apart(dropout: float = 0.0) -> tuple[TokenAdamWFitter, list[tuple[bool, Tensor]]]:
    shown = Shown()
    return TokenAdamWFitter(make=lambda: Mean(shown, dropout)), shown


def halves() -> tuple[Tensor, Tensor]:
    rows = torch.randperm(ROWS, generator=torch.Generator().manual_seed(1))
    return rows[:200], rows[200:]


def test_only_rows_that_are_asked_for_are_read(task: TrainingTask) -> None:
    """However many others there are, and in batches that are about full."""
    fitter, shown = apart()
    rows, asked = [halves()[0][:100], halves()[0][50:120]], [halves()[1][:40], halves()[1][:7]]
    fitter.learn(task, [FOUND] * 2, rows, asked, [0, 1])
    learned = [len(mean) for training, mean in shown if training]
    assert sum(learned) == 9 * (100 + 70)
    assert set(learned) == {25, 23, 24}  # 4 batches of 100, 3 of 70
    assert max(learned) <= BATCH
    assert sum(len(mean) for training, mean in shown if not training) == 40 + 7


def test_answers_stand_in_the_order_in_which_they_were_asked_for(task: TrainingTask) -> None:
    fitter, _ = apart()
    train, asked = halves()
    (found,) = fitter.learn(task, [FOUND], [train], [asked], [0])
    module = fitter.make()
    module.load_state_dict(found.state)
    assert task.states is not None
    for row, logits in zip(asked, found.logits, strict=True):
        with torch.no_grad():
            alone = module.eval()(task.states.states(task.index[row][None]))[0]
        assert torch.allclose(logits, alone, atol=1e-5)
    assert (found.logits.argmax(dim=1) == task.targets[asked]).float().mean() > 0.95


def test_a_copy_learns_the_same_whoever_learns_beside_it(task: TrainingTask) -> None:
    fitter, _ = apart(dropout=0.3)
    train, asked = halves()
    rows = [train, train[:150], train]
    together = fitter.learn(task, [FOUND] * 3, rows, [asked] * 3, [0, 1, 2])
    for number in (0, 2):
        (alone,) = fitter.learn(task, [FOUND], [train], [asked], [number])
        assert_same_training(alone.logits, together[number].logits)
        assert_same_training(dict(alone.state), dict(together[number].state))


def test_each_seed_has_an_order_of_its_own_and_every_epoch_another(task: TrainingTask) -> None:
    fitter, shown = apart()
    train, asked = halves()
    orders, planned = [], 9
    for seed in (0, 1):
        shown.clear()
        fitter.learn(task, [FOUND], [train], [asked], [seed])
        batches = [float(mean.sum()) for training, mean in shown if training]
        epochs = [tuple(batches[start : start + 7]) for start in range(0, len(batches), 7)]
        assert len(epochs) == planned
        assert len({frozenset(epoch) for epoch in epochs}) == 1
        orders += epochs
    assert len(set(orders)) == 2 * planned


def test_what_is_tried_shares_its_batches(
    task: TrainingTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every point of the search sees the same rows, and each batch is read once for all."""
    read: list[int] = []
    states = TokenStates.states

    def counted(self: TokenStates, texts: Tensor) -> States:
        read.append(len(texts))
        return states(self, texts)

    monkeypatch.setattr(TokenStates, "states", counted)
    monkeypatch.setattr(successive_halving, "SETTLED", 1000)  # nobody is let go before the cap
    monkeypatch.setattr(successive_halving, "CAP", 21)
    fitter, shown = apart(dropout=0.3)
    tried = list(fitter.search(task, splits_of(1), [3]))
    steps = sorted({point.step for point in tried})
    assert steps[-1] == 21  # three passes over 200 rows, 7 batches each
    assert len(tried) == len(TOKEN_HEADS) * len(steps)
    assert sum(read) == 3 * 200 + len(TOKEN_HEADS) * len(steps) * 50
    assert sum(len(mean) for training, mean in shown if training) == len(TOKEN_HEADS) * 3 * 200


def splits_of(seeds: int) -> Splits:
    """250 rows to learn from, of which every seed takes 50 others to choose on."""
    train, rest = torch.arange(250), torch.arange(250, ROWS)
    chosen = [torch.arange(start, start + 50) for start in range(0, 50 * seeds, 50)]
    fitted = [train[~torch.isin(train, rows)] for rows in chosen]
    return Splits(
        kind="test set",
        search=tuple(fitted),
        development=tuple(chosen),
        train=(train,) * seeds,
        test=(rest,) * seeds,
    )


def ended(
    fitter: TokenAdamWFitter, task: TrainingTask, seeds: list[int]
) -> tuple[list[TriedSettings], list[SearchResult]]:
    return collect(fitter.search(task, splits_of(len(seeds)), seeds))


def test_a_search_hands_on_its_best(task: TrainingTask) -> None:
    fitter, _ = apart(dropout=0.3)
    told, found = ended(fitter, task, [3, 4])
    for number, one in enumerate(found):
        own = [point for point in told if point.seed == number]
        alike = [point for point in own if _choice(point) == _choice(one.point)]
        best = min(alike, key=lambda point: point.loss)
        assert one.point.loss == best.loss
        assert one.state is not None
        assert one.held is not None
        module = fitter.make()
        module.load_state_dict(one.state)
        assert task.states is not None
        rows = splits_of(2).development[number]
        for row, logits in zip(rows[:10], one.held, strict=False):
            with torch.no_grad():
                alone = module.eval()(task.states.states(task.index[row][None]))[0]
            assert torch.allclose(logits, alone, atol=1e-5)
    alone_told, (alone,) = ended(fitter, task, [3])
    assert alone_told == [point for point in told if point.seed == 0]
    assert alone.chosen == found[0].chosen
    assert alone.state is not None
    assert found[0].state is not None
    assert_same_training(dict(alone.state), dict(found[0].state))


def _choice(point: TriedSettings) -> dict[str, object]:
    return {n: value for n, value in point.settings.items() if n not in ("epochs", "converged")}


def test_a_copy_learns_what_torch_alone_would(task: TrainingTask) -> None:
    """Constant step size after a warm-up; the numbers told are the mean of those of all steps,
    where it goes on from a head that was found."""
    fitter, _ = apart()
    rows, start = torch.arange(20), fitter.make().state_dict()  # one batch, in one order
    point = {"learning_rate": 0.01, "weight_decay": 0.3, "epochs": 60.0}
    found = replace(FOUND, chosen=point, state=start)
    (learned,) = fitter.learn(task, [found], [rows], [rows], [0])
    module = fitter.make()
    module.load_state_dict(start)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, weight_decay=0.3, betas=(0.9, 0.99))
    assert task.states is not None
    states, passed = task.states.states(task.index[rows]), []
    for step in range(1, 31):  # half of those of the search
        optimizer.param_groups[0]["lr"] = 0.01 * min(1.0, step / 20)
        optimizer.zero_grad()
        cross_entropy(module.train()(states), task.targets[rows]).backward()
        optimizer.step()
        passed.append({n: t.detach().clone() for n, t in module.state_dict().items()})
    for name, tensor in learned.state.items():
        wanted = torch.stack([one[name] for one in passed]).mean(dim=0)
        assert torch.allclose(tensor, wanted, atol=1e-5)


def test_it_ends_where_that_is_asked_for(task: TrainingTask) -> None:
    fitter, shown = apart()
    train, asked = halves()
    task.stop.set()
    with pytest.raises(Interrupted):
        fitter.learn(task, [FOUND], [train], [asked], [0])
    assert not shown
