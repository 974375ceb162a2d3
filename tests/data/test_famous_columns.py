"""The columns of well-known data sets are found: tables of their shape, with texts made up here.

Each has the header of the original (or none), cells of the same kind, and a few dozen rows.
"""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import slow

from heads.data.dataset import read

ROWS = 60
NOUNS = [
    "kettle", "station", "river", "engine", "ticket", "garden", "window", "parcel", "market",
    "signal", "doctor", "bridge", "album", "flight", "waiter", "keyboard", "jacket", "camera",
    "village", "story", "battery", "hotel", "room", "service", "price", "dress",
]  # fmt: skip
VERBS = [
    "leaks", "opens", "fails", "shines", "costs", "arrives", "breaks", "stops", "helps",
    "works", "smells", "feels", "looks",
]  # fmt: skip
WORDS = [
    "the", "a", "very", "not", "quite", "again", "today", "with", "for", "my", "our", "after",
    "before", "because", "slowly", "cheap",
]  # fmt: skip
FIRST = ["Anna", "Boris", "Chen", "Dana", "Emil", "Fatima", "Georg", "Hanna", "Ivan", "Julia"]
LAST = ["Smith", "Novak", "Okafor", "Lind", "Weber", "Rossi", "Tanaka", "Silva", "Moreau", "Khan"]


class Made:
    """Cells of all kinds, drawn anew for every row."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.row = 0

    def words(self, low: int, high: int) -> str:
        count = self.rng.randint(low, high)
        return " ".join(self.rng.choice((*NOUNS, *VERBS, *WORDS, *WORDS)) for _ in range(count))

    def sentence(self) -> str:
        return self.words(7, 16).capitalize() + "."

    def long(self) -> str:
        return " ".join(self.sentence() for _ in range(self.rng.randint(3, 8)))

    def title(self) -> str:
        return self.words(2, 5).title()

    def pick(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.rng.randint(low, high)

    def real(self, low: float, high: float, digits: int = 3) -> float:
        return round(self.rng.uniform(low, high), digits)

    def code(self, length: int = 10) -> str:
        signs = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789abcdefghijk"
        return "B" + "".join(self.rng.choice(signs) for _ in range(length)) + "7"

    def person(self) -> str:
        return f"{self.rng.choice(FIRST)} {self.rng.choice(LAST)}"

    def user(self) -> str:
        return self.rng.choice(FIRST).lower() + self.rng.choice(LAST) + str(self.number(1, 99))

    def date(self, style: str) -> str:
        year, month, day = self.number(2009, 2021), self.number(1, 12), self.number(1, 28)
        name = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"][
            month - 1
        ]
        clock = f"{self.number(10, 23)}:{self.number(10, 59)}:{self.number(10, 59)}"
        return style.format(y=year, m=f"{month:02d}", d=f"{day:02d}", n=name, t=clock)


Row = Callable[[Made], tuple]
STARS = (1, 2, 3, 4, 5)
# What is read: header (cells in "|"; "" for none), a row, and text, pair, label, number, labels.
SETS: dict[str, tuple[str, Row, dict[str, Any]]] = {
    "corona tweets": (
        "UserName|ScreenName|Location|TweetAt|OriginalTweet|Sentiment",
        lambda m: (
            3799 + m.row, 48751 + m.row, m.pick("London", "", "Vagabonds", "NY, USA", m.title()),
            m.date("{d}-{m}-{y}"), m.sentence() + " https://t.co/x1",
            m.pick("Positive", "Negative", "Neutral", "Extremely Positive"),
        ),
        {"text": "OriginalTweet", "label": "Sentiment"},
    ),
    "STS-B": (
        "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
        lambda m: (
            m.row, m.pick("main-captions", "main-news", "main-forums"),
            m.pick("MSRvid", "images", "headlines"), m.pick("2012test", "2014", "2015"),
            m.number(0, 2000), "none", "none", m.sentence(), m.sentence(), f"{m.real(0, 5):.3f}",
        ),
        {"text": "sentence1", "pair": "sentence2", "label": "score", "number": True},
    ),
    "STS-B dev, few scores": (
        "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
        lambda m: (
            m.row, m.pick("main-captions", "main-news"), m.pick("MSRvid", "images"),
            m.pick("2012test", "2014"), m.number(0, 2000), "none", "none", m.sentence(),
            m.sentence(), f"{m.number(0, 25) / 5:.3f}",
        ),
        {"text": "sentence1", "pair": "sentence2", "label": "score"},
    ),
    "MRPC": (
        "Quality|#1 ID|#2 ID|#1 String|#2 String",
        lambda m: (
            m.pick(0, 1), m.number(10**5, 10**6), m.number(10**5, 10**6), m.sentence(),
            m.sentence(),
        ),
        {"text": "#1 String", "pair": "#2 String", "label": "Quality"},
    ),
    "QNLI": (
        "index|question|sentence|label",
        lambda m: (m.row, m.sentence(), m.long(), m.pick("entailment", "not_entailment")),
        {"text": "question", "pair": "sentence", "label": "label"},
    ),
    "QQP": (
        "id|qid1|qid2|question1|question2|is_duplicate",
        lambda m: (
            m.row, 2 * m.row + 1, 2 * m.row + 2, m.sentence(), m.sentence(), m.pick(0, 1)
        ),
        {"text": "question1", "pair": "question2", "label": "is_duplicate"},
    ),
    "MNLI": (
        "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse|"
        "sentence1_parse|sentence2_parse|sentence1|sentence2|label1|gold_label",
        lambda m: (
            m.row, m.number(10**4, 10**5), f"{m.number(10**4, 10**5)}n",
            m.pick("fiction", "government", "slate", "telephone"), f"( {m.sentence()} )",
            f"( {m.sentence()} )", f"(ROOT (S (NP {m.sentence()})))",
            f"(ROOT (S (NP {m.sentence()})))", m.sentence(), m.sentence(),
            *[m.pick("neutral", "entailment", "contradiction")] * 2,
        ),
        {"text": "sentence1", "pair": "sentence2", "label": "gold_label"},
    ),
    "RTE": (
        "index|sentence1|sentence2|label",
        lambda m: (m.row, m.long(), m.sentence(), m.pick("entailment", "not_entailment")),
        {"text": "sentence1", "pair": "sentence2", "label": "label"},
    ),
    "SICK": (
        "pair_ID|sentence_A|sentence_B|relatedness_score|entailment_judgment",
        lambda m: (
            m.row + 1, m.sentence(), m.sentence(), m.real(1, 5, 1),
            m.pick("NEUTRAL", "ENTAILMENT", "CONTRADICTION"),
        ),
        {"text": "sentence_A", "pair": "sentence_B", "label": "entailment_judgment"},
    ),
    "CoLA": (
        "",
        lambda m: (
            m.pick("gj04", "bc01", "r-67", "cj99"), (good := m.pick(0, 1)), "" if good else "*",
            m.sentence(),
        ),
        {"text": "column 4", "label": "column 2"},
    ),
    "Yelp": (
        "business_id|date|review_id|stars|text|type|user_id|cool|useful|funny",
        lambda m: (
            m.code(), m.date("{y}-{m}-{d}"), m.code(), m.pick(*STARS), m.long(), "review",
            m.code(), m.number(0, 9), m.number(0, 9), m.number(0, 9),
        ),
        {"text": "text", "label": "stars"},
    ),
    "women's clothing": (
        "|Clothing ID|Age|Title|Review Text|Rating|Recommended IND|Positive Feedback Count|"
        "Division Name|Department Name|Class Name",
        lambda m: (
            m.row, m.number(700, 1100), m.number(18, 80), m.pick("", m.title()), m.long(),
            m.pick(*STARS), m.pick(0, 1), m.number(0, 30), m.pick("General", "General Petite"),
            m.pick("Tops", "Dresses", "Bottoms"), m.pick("Blouses", "Dresses", "Knits", "Pants"),
        ),
        {"text": "Review Text", "label": "Rating"},
    ),
    "drug reviews": (
        "uniqueID|drugName|condition|review|rating|date|usefulCount",
        lambda m: (
            206461 + m.row, m.pick("Valsartan", "Guanfacine", "Lybrel", "Cialis", m.title()),
            m.pick("ADHD", "Birth Control", "Pain", "Depression"), f'"{m.long()}"',
            m.number(1, 10), m.date("{d}-{n}-12"), m.number(0, 200),
        ),
        {"text": "review", "label": "rating"},
    ),
    "IMDB": (
        "review|sentiment",
        lambda m: (m.long() + "<br /><br />" + m.long(), m.pick("positive", "negative")),
        {"text": "review", "label": "sentiment"},
    ),
    "fine foods": (
        "Id|ProductId|UserId|ProfileName|HelpfulnessNumerator|HelpfulnessDenominator|Score|Time|"
        "Summary|Text",
        lambda m: (
            m.row + 1, m.code(8), m.code(12), m.person(), m.number(0, 5), m.number(0, 9),
            m.pick(*STARS), 1303862400 + 86400 * m.number(0, 999), m.title(), m.long(),
        ),
        {"text": "Text", "label": "Score"},
    ),
    "airline tweets": (
        "tweet_id|airline_sentiment|airline_sentiment_confidence|negativereason|"
        "negativereason_confidence|airline|airline_sentiment_gold|name|negativereason_gold|"
        "retweet_count|text|tweet_coord|tweet_created|tweet_location|user_timezone",
        lambda m: (
            570306133677760513 + m.row, m.pick("neutral", "positive", "negative"),
            m.real(0.3, 1, 4), m.pick("", "Bad Flight", "Late Flight"), m.pick("", "0.7033"),
            m.pick("Virgin America", "United", "Delta"), "", m.user(), "", 0,
            "@VirginAmerica " + m.sentence(), "", m.date("{y}-{m}-{d} {t} -0800"),
            m.pick("", "Lets Play", "Austin"), m.pick("Eastern Time (US & Canada)", "Quito"),
        ),
        {"text": "text", "label": "airline_sentiment"},
    ),
    "disaster tweets": (
        "id|keyword|location|text|target",
        lambda m: (
            m.row, m.pick("ablaze", "wreck", "", "flood"), m.pick("", "Birmingham", m.title()),
            m.sentence(), m.pick(0, 1),
        ),
        {"text": "text", "label": "target"},
    ),
    "toxic comments": (
        "id|comment_text|toxic|severe_toxic|obscene|threat|insult|identity_hate",
        lambda m: (
            f"0000{m.number(10**9, 10**10):x}f", m.long(), *(m.pick(0, 0, 1) for _ in range(6))
        ),
        {
            "text": "comment_text",
            "label": "",
            "labels": ("toxic", "severe_toxic", "obscene", "threat", "insult", "identity_hate"),
        },
    ),
    "BBC news": (
        "category|filename|title|content",
        lambda m: (
            m.pick("business", "sport", "tech"), f"{m.row:03d}.txt", m.title(), m.long()
        ),
        {"text": "content", "label": "category"},
    ),
    "spam": (
        "v1|v2|||",
        lambda m: (m.pick("ham", "ham", "spam"), m.sentence(), "", "", ""),
        {"text": "v2", "label": "v1"},
    ),
    "Enron spam": (
        "Message ID|Subject|Message|Spam/Ham|Date",
        lambda m: (
            m.row, m.title(), m.long(), m.pick("spam", "ham"), m.date("{y}-{m}-{d}")
        ),
        {"text": "Message", "label": "Spam/Ham"},
    ),
    "fake news": (
        "id|title|author|text|label",
        lambda m: (m.row, m.title(), m.person(), m.long(), m.pick(0, 1)),
        {"text": "text", "label": "label"},
    ),
    "fake and true news": (
        "title|text|subject|date",
        lambda m: (
            m.title(), m.long(), m.pick("News", "politics", "worldnews"),
            m.date("December {d}, {y}"),
        ),
        {"text": "text", "label": "subject"},
    ),
    "AG news": (
        "Class Index|Title|Description",
        lambda m: (m.number(1, 4), m.title(), m.sentence() + " " + m.sentence()),
        {"text": "Description", "label": "Class Index"},
    ),
    "Sentiment140": (
        "",
        lambda m: (
            m.pick(0, 4), 1467810369 + m.row, f"Mon Apr 06 22:{m.number(10, 59)}:45 PDT 2009",
            "NO_QUERY", "_" + m.user() + "_", "@me " + m.sentence(),
        ),
        {"text": "column 6", "label": "column 1"},
    ),
    "TripAdvisor": (
        "Review|Rating",
        lambda m: (m.long().lower(), m.pick(*STARS)),
        {"text": "Review", "label": "Rating"},
    ),
    "Play store": (
        "App|Translated_Review|Sentiment|Sentiment_Polarity|Sentiment_Subjectivity",
        lambda m: (
            "10 Best Foods for You", m.sentence(), m.pick("Positive", "Neutral", "Negative"),
            m.real(-1, 1), m.real(0, 1),
        ),
        {"text": "Translated_Review", "label": "Sentiment"},
    ),
    "Play store reviews": (
        "reviewId|userName|userImage|content|score|thumbsUpCount|reviewCreatedVersion|at|"
        "replyContent|repliedAt|appId",
        lambda m: (
            f"gp:AOqpTOE{m.code(20)}", m.person(), f"https://lh3.googleusercontent.com/{m.code()}",
            m.sentence(), m.pick(*STARS), m.number(0, 40), m.pick("4.17.0.3", "4.16.6.2"),
            m.date("{y}-{m}-{d} {t}"), m.pick("", "", "Hi, please write to us at support, thanks."),
            m.pick("", m.date("{y}-{m}-{d} {t}")), "com.anydo",
        ),
        {"text": "content", "label": "score"},
    ),
    "movie reviews": (
        "PhraseId|SentenceId|Phrase|Sentiment",
        lambda m: (m.row + 1, m.row // 6 + 1, m.words(1, 12), m.number(0, 4)),
        {"text": "Phrase", "label": "Sentiment"},
    ),
    "entity sentiment": (
        "",
        lambda m: (
            2401 + m.row // 6, m.pick("Borderlands", "Amazon", "Nvidia", "Xbox(Xseries)"),
            m.pick("Positive", "Negative", "Neutral", "Irrelevant"), m.sentence(),
        ),
        {"text": "column 4", "label": "column 3"},
    ),
    "stance": (
        "ID|Target|Tweet|Stance",
        lambda m: (
            m.row, m.pick("Atheism", "Climate Change is a Real Concern", "Feminist Movement"),
            m.sentence() + " #SemST", m.pick("FAVOR", "AGAINST", "NONE"),
        ),
        {"text": "Tweet", "label": "Stance"},
    ),
    "sarcasm": (
        "article_link|headline|is_sarcastic",
        lambda m: (f"https://www.theonion.com/{m.code()}", m.sentence(), m.pick(0, 1)),
        {"text": "headline", "label": "is_sarcastic"},
    ),
    "Stack Overflow": (
        "Id|Title|Body|Tags|CreationDate|Y",
        lambda m: (
            34552656 + m.row, m.sentence(), f"<p>{m.long()}</p>",
            m.pick("<java><repeat>", "<python>", "<javascript><optional>"),
            m.date("{y}-{m}-{d} {t}"), m.pick("HQ", "LQ_EDIT", "LQ_CLOSE"),
        ),
        {"label": "Y"},
    ),
    "resumes": (
        "ID|Resume_str|Resume_html|Category",
        lambda m: (
            16852973 + m.row, m.long(), f'<div class="fontsize">{m.long()}{m.long()}</div>',
            m.pick("HR", "DESIGNER", "TEACHER"),
        ),
        {"text": "Resume_str", "label": "Category"},
    ),
    "news categories": (
        "link|headline|category|short_description|authors|date",
        lambda m: (
            f"https://www.huffpost.com/entry/{m.code()}", m.sentence(),
            m.pick("POLITICS", "WELLNESS", "TRAVEL"), m.sentence() + " " + m.sentence(),
            f"{m.person()}, {m.person()}", m.date("{y}-{m}-{d}"),
        ),
        {"text": "short_description", "label": "category"},
    ),
    "LIAR": (
        "",
        lambda m: (
            f"{m.number(10, 9999)}.json",
            m.pick("false", "half-true", "mostly-true", "true", "barely-true", "pants-fire"),
            m.sentence(), m.pick("economy", "taxes,jobs", "health-care"), m.person(),
            m.pick("State representative", "President", ""), m.pick("Texas", "Ohio", "Florida"),
            m.pick("republican", "democrat"), *(m.number(0, 40) for _ in range(5)),
            m.pick("a mailer", "a speech", "an interview"),
        ),
        {"text": "column 3", "label": "column 2"},
    ),
    "Amazon polarity": (
        "",
        lambda m: (m.number(1, 2), m.title(), m.long()),
        {"text": "column 3", "label": "column 1"},
    ),
    "financial phrases": (
        "",
        lambda m: (m.pick("neutral", "positive", "negative"), m.sentence()),
        {"text": "column 2", "label": "column 1"},
    ),
    "ATIS": (
        "",
        lambda m: (m.pick("atis_flight", "atis_airfare", "atis_city"), m.sentence().lower()),
        {"text": "column 2", "label": "column 1"},
    ),
    "opinions": (
        "Review Title|Opinion|ReviewerName|Recommended",
        lambda m: (m.title(), m.long(), m.person(), m.pick("Yes", "No")),
        {"text": "Opinion", "label": "Recommended"},
    ),
    "hotels": (
        "address|city|country|name|reviews.date|reviews.rating|reviews.text|reviews.title|"
        "reviews.username",
        lambda m: (
            f"{m.number(1, 99)} Main St", m.pick("Tampa", "Austin"), "US",
            m.pick("Hotel Russo", "Inn Vista"), m.date("{y}-{m}-{d}T00:00:00Z"), m.pick(*STARS),
            m.long(), m.title(), m.person(),
        ),
        {"text": "reviews.text", "label": "reviews.rating"},
    ),
    "Flipkart": (
        "product_name|product_price|Rate|Review|Summary|Sentiment",
        lambda m: (
            m.pick("Air Cooler with Trolley", "Juicer Mixer"), m.pick("3999", "1999"),
            m.pick(*STARS), m.pick("super!", "awesome", "fair", "useless product"), m.sentence(),
            m.pick("positive", "negative", "neutral"),
        ),
        {"text": "Summary", "label": "Sentiment"},
    ),
    "personality": (
        "type|posts",
        lambda m: (m.pick("INFJ", "ENTP", "INTJ"), f"'{m.long()}|||{m.long()}"),
        {"text": "posts", "label": "type"},
    ),
    "mental health": (
        "|statement|status",
        lambda m: (m.row, m.sentence(), m.pick("Anxiety", "Normal", "Depression")),
        {"text": "statement", "label": "status"},
    ),
    "complaints": (
        "Date received|Product|Sub-product|Issue|Consumer complaint narrative|"
        "Company public response|Company|State|ZIP code|Tags|Submitted via|Complaint ID",
        lambda m: (
            m.date("{m}/{d}/{y}"), m.pick("Mortgage", "Debt collection", "Credit card"),
            m.pick("", "FHA mortgage", "Medical"), m.pick("Loan servicing", "Disclosure"),
            m.long(), m.pick("", "Company chooses not to provide a public response"),
            m.pick("BANK OF X", "CITI"), m.pick("CA", "TX"), m.number(10000, 99999),
            m.pick("", "", "Older American"), m.pick("Web", "Phone"), 1300000 + m.row,
        ),
        {"text": "Consumer complaint narrative"},
    ),
    "hate speech": (
        "|count|hate_speech|offensive_language|neither|class|tweet",
        lambda m: (
            m.row, 3, m.number(0, 3), m.number(0, 3), m.number(0, 3), m.number(0, 2), m.sentence()
        ),
        {"text": "tweet", "label": "class"},
    ),
    "wine": (
        "|country|description|designation|points|price|province|taster_name|title|variety",
        lambda m: (
            m.row, m.pick("Italy", "US"), m.sentence() + " " + m.sentence(), m.title(),
            m.number(80, 100), m.number(10, 90), m.pick("Oregon", "Sicily"), m.person(),
            m.title() + " 2013", m.pick("Pinot Noir", "Riesling", "Merlot"),
        ),
        {"text": "description"},
    ),
    "civil comments": (
        "id|target|comment_text|severe_toxicity|obscene|created_date|likes",
        lambda m: (
            m.row, m.pick(0.0, 0.0, 0.2, 0.1666, m.real(0, 1, 6)), m.long(), m.real(0, 1, 6),
            m.real(0, 1, 6), m.date("{y}-{m}-{d}"), m.number(0, 5),
        ),
        {"text": "comment_text", "label": "target"},
    ),
    "readability": (
        "id|url_legal|license|excerpt|target|standard_error",
        lambda m: (m.code(), "", "", m.long(), m.real(-3, 1, 8), m.real(0.4, 0.6, 8)),
        {"text": "excerpt", "label": "target", "number": True},
    ),
    "Amazon reviews": (
        "marketplace|customer_id|review_id|product_id|product_parent|product_title|"
        "product_category|star_rating|helpful_votes|total_votes|vine|verified_purchase|"
        "review_headline|review_body|review_date",
        lambda m: (
            "US", m.number(10**6, 10**7), m.code(), m.code(), m.number(10**6, 10**8), m.title(),
            "Books", m.pick(*STARS), m.number(0, 9), m.number(0, 20), m.pick("N", "Y"),
            m.pick("Y", "N"), m.title(), m.long(), m.date("{y}-{m}-{d}"),
        ),
        {"text": "review_body", "label": "star_rating"},
    ),
    "sarcasm in threads": (
        "label|comment|author|subreddit|score|ups|downs|date|created_utc|parent_comment",
        lambda m: (
            m.pick(0, 1), m.sentence(), m.user(), m.pick("politics", "nba"), m.number(-5, 20),
            m.number(-1, 20), m.number(-1, 0), "2016-10", m.date("{y}-{m}-{d} {t}"), m.sentence(),
        ),
        {"text": "comment", "label": "label"},
    ),
    "speaker reviews": (
        "rating|date|variation|verified_reviews|feedback",
        lambda m: (
            m.pick(*STARS), "31-Jul-18", m.pick("Charcoal Fabric", "Walnut Finish"), m.sentence(),
            m.pick(0, 1),
        ),
        {"text": "verified_reviews", "label": "rating"},
    ),
    "BoolQ": (
        "question|title|answer|passage",
        lambda m: (m.sentence(), m.title(), m.pick("true", "false"), m.long()),
        {"text": "question", "pair": "passage", "label": "answer"},
    ),
    "dialogue acts": (
        "Dialogue_ID,Utterance,Emotion".replace(",", "|"),
        lambda m: (m.row // 8, m.sentence(), m.pick("joy", "anger", "neutral")),
        {"text": "Utterance", "label": "Emotion"},
    ),
}  # fmt: skip
# Sets of which two columns may be meant, and which others are named beside the one that is taken.
DOUBTS = {
    "women's clothing": ("which_label", "Class Name"),
    "news categories": ("which_text", "headline"),
    "sarcasm in threads": ("which_text", "parent_comment"),
}


def written(name: str, folder: Path, *, sign: str = ",", seed: int = 0, rows: int = ROWS) -> Path:
    header, row_of, _ = SETS[name]
    made, lines = Made(seed), []
    for made.row in range(rows):
        lines.append(row_of(made))
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=sign).writerows([header.split("|"), *lines] if header else lines)
    path = folder / ("table.tsv" if sign == "\t" else "table.csv")
    path.write_text(file.getvalue(), "utf-8", newline="")
    return path


@pytest.mark.parametrize("sign", [",", "\t"])
@pytest.mark.parametrize("name", slow.but_each(3, SETS))
def test_the_columns_of_a_famous_set_are_found(tmp_path: Path, name: str, sign: str) -> None:
    for seed, rows in ((0, ROWS), (1, 36), (2, 300)):
        found = read(written(name, tmp_path, sign=sign, seed=seed, rows=rows)).columns
        expected = SETS[name][2]
        assert {key: getattr(found, key) for key in expected} == expected, (seed, rows)
        assert bool(found.pair) == ("pair" in expected)


@pytest.mark.parametrize("name", DOUBTS)
def test_where_two_columns_are_near_both_are_named(tmp_path: Path, name: str) -> None:
    kind, other = DOUBTS[name]
    data = read(written(name, tmp_path))
    says = next(one.says for one in data.findings if one.kind == kind)
    taken = data.columns.label if kind == "which_label" else data.columns.text
    assert says.startswith(f"'{taken}' (")
    assert f"'{other}' (" in says
    assert f"(--{kind.removeprefix('which_')} " in says


@pytest.mark.parametrize(
    "name", ["IMDB", "TripAdvisor", "QNLI", "fake news", "spam", "Sentiment140", "corona tweets"]
)
def test_where_no_column_is_near_nothing_is_asked(tmp_path: Path, name: str) -> None:
    found = read(written(name, tmp_path)).findings
    assert not {"which_text", "which_label"} & {one.kind for one in found}


def test_json_lines_of_inference_are_read(tmp_path: Path) -> None:
    made, lines = Made(0), []
    for row in range(ROWS):
        label = made.pick("neutral", "entailment", "contradiction")
        one, other = made.sentence(), made.sentence()
        lines.append(
            {
                "annotator_labels": [label] * 5, "captionID": f"{row}.jpg#4", "gold_label": label,
                "pairID": f"{row}.jpg#4n", "sentence1": one,
                "sentence1_binary_parse": f"( {one} )", "sentence1_parse": f"(ROOT (S {one}))",
                "sentence2": other, "sentence2_binary_parse": f"( {other} )",
                "sentence2_parse": f"(ROOT (S {other}))",
            }
        )  # fmt: skip
    path = tmp_path / "snli.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    found = read(path).columns
    assert (found.text, found.pair, found.label) == ("sentence1", "sentence2", "gold_label")
    assert not found.separator
