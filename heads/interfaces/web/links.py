"""What the inputs of the page say, and the link that says the same."""

from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from heads.backbone.models import BUNDLED
from heads.data.samples import RECIPES, SAMPLES
from heads.parts.resolved_recipe import JOINT

OPENING_SAMPLE = "sentiment"
LINK_FIELDS = ("text", "pair", "model", "sample", "recipes", "pairs")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageQuery:
    """What the inputs of the tab say."""

    text: str
    pair: str = ""
    model: str = BUNDLED
    sample: str = OPENING_SAMPLE
    recipes: tuple[str, ...] = RECIPES
    pairs: str = JOINT

    @property
    def query(self) -> str:
        """The part of a link that restores the question."""
        fields = {
            "text": self.text,
            "pair": self.pair,
            "model": self.model,
            "sample": self.sample,
            "recipes": ",".join(self.recipes),
            "pairs": self.pairs if self.pairs != JOINT else "",
        }
        return "?" + urlencode({name: value for name, value in fields.items() if value})

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of `heads.compare`."""
        return {
            "text": self.text,
            "pair": self.pair,
            "model": self.model,
            "sample": self.sample,
            "recipes": self.recipes,
            "pairs": self.pairs if self.pair.strip() else JOINT,
        }

    def suited(self) -> "PageQuery":
        """The same with a sample that suits: a second sentence asks for pairs."""
        wrong = self.sample in SAMPLES and not SAMPLES[self.sample].pair
        return replace(self, sample="pairs") if self.pair.strip() and wrong else self

    @classmethod
    def from_query(cls, fields: dict[str, str]) -> "PageQuery":
        """Reads such a link; a plus that has become a space on the way is mended."""
        given = {name: fields.get(name, "") for name in LINK_FIELDS}
        sample = given["sample"] or ("pairs" if given["pair"] else OPENING_SAMPLE)
        text = given["text"] or (SAMPLES[sample].tries[0][0] if sample in SAMPLES else "")
        names = [name.strip().replace(" ", "+") for name in given["recipes"].split(",") if name]
        return cls(
            text=text,
            pair=given["pair"],
            model=given["model"] or BUNDLED,
            sample=sample,
            recipes=tuple(names) or RECIPES,
            pairs=given["pairs"] or JOINT,
        )


OPENING = PageQuery(text=SAMPLES[OPENING_SAMPLE].tries[0][0])
