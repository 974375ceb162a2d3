"""Where one is on the page; it stands in the URL, so a link, a reload and Back restore it."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import parse_qsl, urlencode

from heads.backbone.models import BUNDLED
from heads.data.samples import PAIR_RECIPES, RECIPES, SAMPLES
from heads.errors import RecipeError
from heads.interfaces.web.lane_sections import lane_sections
from heads.parts.resolved_recipe import JOINT, SIAMESE

PLACES = ("try", "data", "learn")
SECTIONS = tuple(section.name for section in lane_sections())
OPENING_SAMPLE = "sentiment"
MOST = 4  # heads side by side


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """What the page shows."""

    place: str = "try"  # one of `PLACES`
    text: str = ""  # the sentence under Try
    pair: str = ""  # its second sentence
    model: str = BUNDLED
    sample: str = OPENING_SAMPLE  # that the heads under Try were trained on
    run: str = ""  # that they are of instead, by its id
    recipes: tuple[str, ...] = RECIPES  # the heads side by side
    pairs: str = SIAMESE  # how two sentences enter
    raw: bool = False  # logits are shown as trained, before calibration
    lane: int = 0  # which of the heads is open, from 1; 0 for none
    show: str = "why"  # which section of it, one of `SECTIONS`
    result: str = ""  # the run under Your data, by its id
    head: str = ""  # which of its heads is open

    @property
    def query(self) -> str:
        """The part of a link that restores it; what is as it opens is left out."""
        usual = (self.text, self.pair) == _first_try(self.sample, self.run)
        found = {}
        for field in fields(self):
            value = getattr(self, field.name)
            default = self.usual_recipes if field.name == "recipes" else field.default
            if value != default and not (usual and field.name in ("text", "pair")):
                found[field.name] = ",".join(value) if field.name == "recipes" else str(value)
        found |= {"raw": "1"} if self.raw else {}
        if not usual:
            found["text"] = self.text
        return "?" + urlencode(found, errors="replace")  # half a pair of surrogates

    @classmethod
    def of(cls, query: str | Mapping[str, str]) -> "Location":
        """Read such a link, whatever somebody has written into it.

        >>> Location.of("?recipes=mean linear,cls+roberta&pair=b&lane=x").recipes
        ('mean+linear', 'cls+roberta')
        """
        given = (
            dict(parse_qsl(query.lstrip("?"), keep_blank_values=True))
            if isinstance(query, str)
            else dict(query)
        )
        pair, sample = given.get("pair", ""), given.get("sample", "")
        if sample not in SAMPLES:
            sample = "pairs" if pair.strip() and not given.get("run") else OPENING_SAMPLE
        first, second = _first_try(sample, given.get("run", ""))
        names = given.get("recipes", "").split(",")
        # A plus becomes a space on the way.
        recipes = tuple(name.strip().replace(" ", "+") for name in names if name.strip())
        recipes = recipes[:MOST] or cls(sample=sample, run=given.get("run", "")).usual_recipes
        lane = given.get("lane", "")
        return cls(
            place=_among(given.get("place"), PLACES),
            text=given.get("text", first),
            pair=pair if "text" in given else pair or second,
            model=given.get("model") or BUNDLED,
            sample=sample,
            run=given.get("run", ""),
            recipes=recipes,
            pairs=given.get("pairs") or SIAMESE,
            raw=given.get("raw") == "1",
            lane=int(lane) if lane in ("1", "2", "3", "4")[: len(recipes)] else 0,
            show=_among(given.get("show"), SECTIONS),
            result=given.get("result", ""),
            head=given.get("head", "").replace(" ", "+"),
        )

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of `heads.compare`."""
        source = {"run": self.run} if self.run else {"model": self.model, "sample": self.sample}
        return {
            "text": self.text,
            "pair": self.pair,
            "recipes": self.recipes,
            "pairs": self.pairs if self.pair.strip() and not self.run else JOINT,
            "raw": self.raw,
            **source,
        }

    @property
    def is_lane_open(self) -> bool:
        """Whether one of the lanes is open."""
        return 1 <= self.lane <= len(self.recipes)

    @property
    def open_recipe(self) -> str:
        """The recipe of the open lane; raises RecipeError if none is open."""
        if not self.is_lane_open:
            raise RecipeError("No head is open.", "Click on one.")
        return self.recipes[self.lane - 1]

    @property
    def usual_recipes(self) -> tuple[str, ...]:
        """The heads that are shown where none are named."""
        return PAIR_RECIPES if self.has_pairs and not self.run else RECIPES

    @property
    def has_pairs(self) -> bool:
        """Whether the heads of its sample compare two sentences."""
        return SAMPLES[self.sample].pair

    def suited(self) -> "Location":
        """Return the same with a sample that suits: a second sentence asks for pairs."""
        is_wrong = not self.run and bool(self.pair.strip()) and not self.has_pairs
        return self.on_sample("pairs") if is_wrong else self

    def on_sample(self, sample: str) -> "Location":
        """Return the same with the heads of a sample; its usual ones where none were chosen."""
        new = replace(self, sample=sample, run="")
        is_usual = bool(self.run) or self.recipes == self.usual_recipes
        return replace(new, recipes=new.usual_recipes) if is_usual else new

    def asks_the_same(self, other: "Location") -> bool:
        """Whether the heads under Try are asked the same."""
        return self.asked == other.asked


def _first_try(sample: str, run: str) -> tuple[str, str]:
    """The sentence, and its second, that a sample opens with; a run opens with none."""
    first, second = (*SAMPLES[sample].tries[0], "")[:2]
    return ("", "") if run else (first, second)


def _among(given: str | None, known: tuple[str, ...]) -> str:
    return given if given in known else known[0]


OPENING = Location.of({})
