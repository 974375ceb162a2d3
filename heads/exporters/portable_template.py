"""The text of `load.py` that is the same for every classifier, as templates."""

from string import Template

START = Template('''\
"""$title: texts in, $out out.

    from load import load

    classify = load()
$use

Written by Head to Head $version. It needs $packages.
Legend: n texts, t tokens, d width of a token's state, c classes.
"""''')

USE = Template("""\
    classify(["a text", "another text"])  # $shape
    classify.logits(["a text"])  # (n, c), $logits
    classify(["a text"], ["a second text"])  # for pairs, where it was trained on them""")

USE_APART = Template("""\
    classify(["a text"], ["a second text"])  # $shape
    classify.logits(["a text"], ["a second text"])  # (n, c), $logits""")

HEAD = Template('''\
class Head(nn.Module):
    """$says"""

    def __init__(self) -> None:
        super().__init__()
$reader        self.head = $chain

    def forward(self, $inputs) -> Tensor:
$forward$compared''')

COMPARED = Template('''

    def compared(self, u: Tensor, v: Tensor) -> Tensor:
        """What was read of first and second texts, (n, w) each, to logits."""
        return self.head($pairing(u, v))''')

LOADER = Template('''\
class Classifier:
    """The base model and the head on it: texts in, $out out."""

    def __init__(self, folder: Path) -> None:
        facts = json.loads((folder / "head.json").read_text("utf-8"))
        self.classes: list[str] = facts["classes"]
        self.tokenizer = AutoTokenizer.from_pretrained(
            folder / "backbone", split_special_tokens=True
        )
        self.backbone = $base.from_pretrained(
            folder / "backbone", dtype=torch.float32, attn_implementation="$attention"$arguments
        ).eval()
        self.head = Head().eval()
        self.head.load_state_dict(load_file(folder / "head.safetensors"))
$thresholds
$answer

    @torch.no_grad()
$begin
        left = sorted(range(len(rows)), key=lambda row: -len(rows[row]["input_ids"]))
        while left:  # the longest first, in batches of like length
            longest = len(rows[left[0]]["input_ids"])
            batch = left[: $most // longest or 1]
$same            left = left[len(batch) :]
            $found[batch] = self.read([rows[row] for row in batch])
        return $found

$cut
        settings = {"truncation": True, "max_length": $tokens$special}
        cut = self.tokenizer(*given, **settings)
        names = ($names)
        rows = [{name: cut[name][row] for name in names} for row in range(len(texts))]
$stubborn$prompt        return rows

    def read(self, rows: Sequence[dict[str, list[int]]]) -> Tensor:
        """Rows of tokens to $found, (n, $size)."""
        inputs = {
$fillings
        }
$read


def filled(rows: Sequence[list[int]], filling: int) -> Tensor:
    """Rows of numbers, filled up on the right to the longest of them, (n, t)."""
    tensors = [torch.tensor(row) for row in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=filling)


def cleaned(text: str) -> str:
    """A text in NFC, without control characters, cut to $letters letters."""
    text = unicodedata.normalize("NFC", text[:$letters])[:$letters]
    kept = [one for one in text if one in "\\n\\t" or unicodedata.category(one) not in ("Cc", "Cs")]
    text = "".join(kept).strip()
    if not text:
        raise ValueError("A text is empty.")
    return text


def load(folder: str | Path = Path(__file__).parent) -> Classifier:
    """Brings the classifier into memory; the folder is the one of this file if not given."""
    return Classifier(Path(folder))
''')

ONE = Template('''\
    def __call__(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The likeliest label of each text, and its probability."""
        scores = $probabilities
        return [
            {"label": self.classes[int(row.argmax())], "score": float(row.amax())}
            for row in scores
        ]''')

MANY = Template('''\
    def __call__(
        self, texts: Sequence[str], pairs: Sequence[str] = ()
    ) -> list[list[dict[str, Any]]]:
        """The labels that apply to each text, any number of them, and their probabilities."""
        logits = self.logits(texts, pairs)
        scores, given = logits.sigmoid().tolist(), (logits > $threshold).tolist()
        return [
            [
                {"label": label, "score": score}
                for label, score, applies in zip(self.classes, *row, strict=True)
                if applies
            ]
            for row in zip(scores, given, strict=True)
        ]''')

NUMBERS = '''\
    def __call__(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The number of each text, as its score."""
        return [
            {"label": label, "score": number}
            for row in self.logits(texts, pairs).tolist()
            for label, number in zip(self.classes, row, strict=True)
        ]'''

THRESHOLDS = """\
        # The logits above which labels apply, found on texts that it was not trained on.
        self.thresholds = torch.tensor(facts["thresholds"], dtype=torch.double)
"""

BEGIN = Template('''\
    def logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """$logits, (n, c)."""
        rows = self.encode(texts, pairs)
        logits = torch.zeros(len(rows), len(self.classes))''')

BEGIN_APART = Template('''\
    def logits(self, texts: Sequence[str], pairs: Sequence[str] = ()) -> Tensor:
        """$logits, (n, c)."""
        if not isinstance(texts, str) and len(texts) != len(pairs):
            raise ValueError("It compares two texts: give one second text for each text.")
        return self.head.compared(self.vectors(texts), self.vectors(pairs))

    @torch.no_grad()
    def vectors(self, texts: Sequence[str]) -> Tensor:
        """What is read of each text by itself, (n, w)."""
        rows = self.encode(texts)
        vectors = torch.zeros(len(rows), $width)''')

CUT = Template('''\
    def encode(self, texts: Sequence[str], pairs: Sequence[str]) -> list[dict[str, list[int]]]:
        """Cuts texts into tokens: rows of numbers for each text."""
        if isinstance(texts, str) or isinstance(pairs, str):
            raise ValueError("The texts must be a list: write [text] for a single one.")
        if pairs and len(pairs) != len(texts):
            raise ValueError("Give one second text for each text, or none.")
        if not texts:
            return []
        given = [[cleaned(text) for text in side] for side in (texts, pairs) if side]$joined''')

CUT_APART = '''\
    def encode(self, texts: Sequence[str]) -> list[dict[str, list[int]]]:
        """Cuts texts into tokens: rows of numbers for each text."""
        if isinstance(texts, str):
            raise ValueError("The texts must be a list: write [text] for a single one.")
        if not texts:
            return []
        given = [[cleaned(text) for text in texts]]'''

SAME = """\
            # This base model reads padding: only texts of one length go together.
            batch = [row for row in batch if len(rows[row]["input_ids"]) == longest]
"""

JOINED = """
        if pairs:  # the tokenizer puts nothing of its own between two texts
            given = [[f"{a}\\n{b}" for a, b in zip(*given, strict=True)]]"""

SPECIAL = ', "return_special_tokens_mask": True'

STUBBORN = Template("""\
        for row, numbers in enumerate(rows):
            for place, side in enumerate(cut.sequence_ids(row)):
                # What looks like a special token stays text, unknown to the model.
                if side is not None and numbers["input_ids"][place] in ($special):
                    numbers["input_ids"][place] = $unknown
$mark""")

PROMPT = Template("""\
        for row in rows:  # the prompt stands behind the last word
            special = row["special_tokens_mask"]
            end = max((place for place, one in enumerate(special) if not one), default=0) + 1
            added = {name: row[name][end - 1 : end] * $size for name in names}
            added |= {"input_ids": [$numbers], "special_tokens_mask": [$marks]}
            for name in names:
                row[name][end:end] = added[name]
""")

MARK = """\
                    numbers["special_tokens_mask"][place] = 0
"""

FIRST = """\
first = torch.zeros_like(inputs["input_ids"])
first[:, 0] = 1  # global attention, as this family's own classifier has it
"""

FURTHER = """\
further = torch.cat([torch.ones_like(mask[:, :1]), mask[:, :-1]], dim=1)
mask = torch.maximum(mask, further)  # the decoder is read one place further on
"""

SKIPPED = Template("""\
wanted = mask * (inputs["input_ids"] != $skipped)  # at the end of a text, that one is padding
behind = wanted.flip(1).cumsum(dim=1).flip(1)
mask = torch.where(wanted.any(dim=1, keepdim=True), mask * (behind > 0), mask)
""")
