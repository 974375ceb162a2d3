"""The registries: a decorator adds a part to one, and everything else follows from it.

A part is one function (or one `torch.nn.Module` class, if it learns) with a docstring. Its
name is the part's name, the docstring's first line is what the user reads, its ``Formula:``
and ``Source:`` lines are shown with it, its keyword-only arguments are its options, and the
order of definition is the order of every menu.
"""

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from heads.errors import RecipeError, did_you_mean
from heads.recipe import Value

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of a recipe. Calling it calls the function or class that made it.

    Attributes:
        title: Its everyday name, such as "Average" of `mean`.
        ranges: What a number may be that is given for an option, where that is not the usual range
            of its kind: least and most.
        is_usual: Whether it stands for its registry where none is named.
    """

    kind: str
    name: str
    title: str
    first_line: str
    formula: str
    source: str
    learned: bool
    make: Callable[..., Any]
    options: Mapping[str, Value] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    is_usual: bool = False

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.make(*args, **options)

    @property
    def says(self) -> str:
        """The first line of the docstring, one sentence for the user."""
        return self.told(self.first_line, self.options)

    def told(self, line: str, options: Mapping[str, Value]) -> str:
        """A line of the docstring, in which ``{option}`` stands for its value."""
        for name, value in options.items():
            line = line.replace(
                f"{{{name}}}", f"{value:g}" if isinstance(value, float) else str(value)
            )
        return line


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooling(Part):
    """A pooling, or a choice of layers.

    Attributes:
        asks: The inputs it reads, by the names of its arguments: `mask`, `content`,
            `states`, `pooler` (see `heads.parts.poolings`).
        token: Which one token it reads, if it reads one: the first, the last, or the last
            end-of-text token. A family's class may take another one for a text's last.
        by_place: Whether it reads single tokens by their place in a text, beside others or not.
    """

    asks: tuple[str, ...] = ()
    token: Literal["", "first", "last", "eos"] = ""
    by_place: bool = False

    def vectors(self, mask: "Tensor", states: "Tensor", **others: Any) -> "Tensor":
        """Return the pooled vectors of some texts, (n, w); a learned pooling is made anew.

        Args:
            mask: (n, t), 1 on real tokens and 0 on padding.
            states: (n, t, d), the states of the tokens.
            others: What else the pooling asks for, such as `content`, and its options.

        Raises:
            RecipeError: It asks for an input that is not given.
        """
        from heads.parts.pooled import pooled

        inputs = {"mask": mask, "states": states, **others}
        if missing := [name for name in self.asks if name not in inputs]:
            what = f"The pooling '{self.name}' asks for '{missing[0]}' as well."
            raise RecipeError(what, f"Give {missing[0]}= to vectors().")
        options = {name: value for name, value in others.items() if name not in self.asks}
        read = partial(self.make, **options)
        reader = read(states.shape[-1]) if self.learned else read
        return pooled(reader(*(inputs[name] for name in self.asks)), states).vectors

    @property
    def is_pooler(self) -> bool:
        """Whether it is what the base model itself makes of a text."""
        return "pooler" in self.asks

    @property
    def is_trained(self) -> bool:
        """Whether it is what the base model's sentence-transformers modules make of a text."""
        return "trained" in self.asks

    @property
    def is_given(self) -> bool:
        """Whether it is a vector that comes from elsewhere, and that no base model reads."""
        return "vectors" in self.asks

    @property
    def is_by_window(self) -> bool:
        """Whether each window of a long text has its own vector, of which the average is read.

        Of a first token there is one a window. Any other pooling reads all tokens as one text.
        """
        return bool(self.token) or self.by_place or self.is_pooler


@dataclass(frozen=True, slots=True, kw_only=True)
class Head(Part):
    """A head: a function of (width, classes) that returns a chain of named layers.

    Attributes:
        prefix: What stands before its tensors' names in the Transformers checkpoint.
        from_base: The layer that a checkpoint keeps in the base model, and that is
            therefore pretrained where the base model has it.
        solve: Sets the chain's tensors to their optimum at once; None where a fitter learns them.
        single_label: Whether it can only answer with one label a text.
        ordered: Whether it is for classes that have an order.
        margined: Whether, while it learns, the logit of a row's own class is lowered by its
            option `margin` times its option `scale`.
        convex: Whether it is fitted to the one optimum of a loss with a penalty, whatever its
            options; other heads that are one linear layer are, unless they are asked for AdamW.
        regression: Whether its solver learns numbers as well.
        search: The values that are tried of an option where the recipe does not say it; whole
            numbers count training rows.
    """

    prefix: str = ""
    from_base: str = ""
    solve: Callable[..., None] | None = None
    single_label: bool = False
    ordered: bool = False
    margined: bool = False
    convex: bool = False
    regression: bool = False
    search: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def is_solved(self) -> bool:
        """Whether it is always fitted to its optimum, and never step by step."""
        return self.convex or self.solve is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning(Part):
    """A way to learn a base model together with a head.

    Attributes:
        above: Whether it is of the last layers: parameters on which a layer below depends are not
            asked for.
        adapter: Whether the parameters stay, and what is learned is an addition of low rank.
        probed: Whether the head is learned on the frozen base model first.
        paired: Whether the base model is learned on pairs of texts first, and then the head on its
            vectors, as on a frozen one.
        library: The library that it is learned by, which need not be installed.
        rate: By how much its learning rates are higher than those of learning everything.
        noun: What is learned of the base model, within a sentence.
    """

    noun: str = ""
    above: bool = False
    adapter: bool = False
    probed: bool = False
    paired: bool = False
    library: str = ""
    rate: float = 1.0

    @property
    def is_installed(self) -> bool:
        """Whether the library that it is learned by is there."""
        return not self.library or find_spec(self.library) is not None


P = TypeVar("P", bound=Part)
Maker = TypeVar("Maker", bound=Callable[..., Any])


class Registry(Mapping[str, P], Generic[P]):
    """An ordered collection of parts, which is also the decorator that adds to it.

    >>> toppings = Registry("topping", Pooling)
    >>> @toppings
    ... def plain(mask, states, *, thick=True):
    ...     '''Nothing at all.'''
    >>> toppings("plain").says, toppings("plain").asks, dict(toppings("plain").options)
    ('Nothing at all.', ('mask', 'states'), {'thick': True})
    """

    def __init__(self, kind: str, part: type[P]) -> None:
        self.kind = kind
        self._part = part
        self._parts: dict[str, P] = {}

    @overload
    def __call__(self, maker: str, /) -> P: ...
    @overload
    def __call__(self, maker: Maker, /, **facts: Any) -> Maker: ...
    @overload
    def __call__(self, /, **facts: Any) -> Callable[[Maker], Maker]: ...
    def __call__(self, maker: Any = None, /, **facts: Any) -> Any:
        """Looks a part up by name, or adds a function or class to the registry.

        Raises:
            RecipeError: There is no part of that name.
            ValueError: The name is taken or not in lower case, or the docstring is missing.
        """
        if isinstance(maker, str):
            return self[maker]
        if maker is None:
            return lambda later: self(later, **facts)
        if maker.__name__ in self._parts:
            raise ValueError(f"There already is a {self.kind} called '{maker.__name__}'.")
        if not re.fullmatch(r"[a-z][a-z0-9_]*", maker.__name__):
            raise ValueError(f"'{maker.__name__}' must be lower case to stand in a recipe.")
        self._parts[maker.__name__] = self.describe(maker, **facts)
        return maker

    def describe(self, maker: Callable[..., Any], **facts: Any) -> P:
        """Return a part that has the form of the others and stands in no menu beside them."""
        doc = inspect.getdoc(maker) if maker.__doc__ else None
        if not doc:
            raise ValueError(
                f"The {self.kind} '{maker.__name__}' needs a docstring: "
                "its first line is what the user reads."
            )
        learned = isinstance(maker, type)
        if issubclass(self._part, Pooling):
            arguments = _parameters(maker.forward if learned else maker)
            facts["asks"] = tuple(p.name for p in arguments if p.kind is not p.KEYWORD_ONLY)
        return self._part(
            kind=self.kind,
            name=maker.__name__,
            title=facts.pop("title", maker.__name__.replace("_", " ").capitalize()),
            first_line=doc.split("\n", 1)[0].strip(),
            formula=_line(doc, "Formula"),
            source=_line(doc, "Source"),
            learned=learned
            or (issubclass(self._part, Head) and not (facts.get("solve") or facts.get("convex"))),
            make=maker,
            options={p.name: p.default for p in _parameters(maker) if p.kind is p.KEYWORD_ONLY},
            **facts,
        )

    @property
    def usual(self) -> str:
        """The name of the part that stands for all where none is named."""
        return next(name for name, part in self._parts.items() if part.is_usual)

    def __getitem__(self, name: str) -> P:
        try:
            return self._parts[name]
        except KeyError:
            what = f"There is no {self.kind} called '{name[:80]}'."
            raise RecipeError(what, did_you_mean(name, self._parts)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, name: object) -> bool:
        return name in self._parts


def _line(doc: str, title: str) -> str:
    """The text after ``Title:``, up to the next blank line or the next title."""
    match = re.search(rf"^{title}: *(.+?)(?=\n\s*\n|\n[A-Z]\w+:|\Z)", doc, re.DOTALL | re.MULTILINE)
    return " ".join(match[1].split()) if match else ""


def _parameters(maker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    return (p for p in inspect.signature(maker).parameters.values() if p.name != "self")


pooling = Registry("pooling", Pooling)
layers = Registry("choice of layers", Pooling)
head = Registry("head", Head)
pairing = Registry("pairing", Part)
loss = Registry("loss", Part)
tuning = Registry("way of learning", Tuning)
