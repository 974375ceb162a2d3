"""The columns of well-known data sets are found: tables of their shape, with texts made up here.

Each has the header of the original (or none), cells of the same kind, and a few dozen rows.
"""

import csv
import io
import json
import random
import re
from pathlib import Path

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
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
CODE = "ABCDEFGHJKLMNPQRSTUVWXYZ0123456789abcdefghijk"
# What stands in the place of a field such as {sentence}, {row+100}, {1..5} or {0.0..1.0}.
FIELD = re.compile(r"\{(?:row(?:\+(\d+))?|(-?[\d.]+)\.\.(-?[\d.]+)|(\w+))\}")


class Made:
    """Cells of all kinds, drawn anew for every row."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.row = 0
        self.kinds = {
            "sentence": self.sentence,
            "long": lambda: " ".join(self.sentence() for _ in range(self.rng.randint(3, 8))),
            "title": lambda: self.words(2, 5).title(),
            "phrase": lambda: self.words(1, 12),
            "code": lambda: f"B{''.join(self.rng.choices(CODE, k=10))}7",
            "person": lambda: f"{self.rng.choice(FIRST)} {self.rng.choice(LAST)}",
            "user": lambda: f"{self.rng.choice(FIRST).lower()}{self.rng.choice(LAST)}{self.row}",
            "year": lambda: str(self.rng.randint(2009, 2021)),
            "month": lambda: f"{self.rng.randint(1, 12):02d}",
            "Mon": lambda: self.rng.choice(MONTHS),
            "day": lambda: f"{self.rng.randint(1, 28):02d}",
            "clock": lambda: ":".join(str(self.rng.randint(10, 23)) for _ in range(3)),
        }

    def words(self, low: int, high: int) -> str:
        known = (*NOUNS, *VERBS, *WORDS, *WORDS)
        return " ".join(self.rng.choices(known, k=self.rng.randint(low, high)))

    def sentence(self) -> str:
        return f"{self.words(7, 16).capitalize()}."

    def field(self, found: re.Match[str]) -> str:
        more, low, high, kind = found.groups()
        if kind:
            return self.kinds[kind]()
        if low is None:
            return str(self.row + int(more or 0))
        if "." in low:
            return str(round(self.rng.uniform(float(low), float(high)), 6))
        return str(self.rng.randint(int(low), int(high)))

    def cell(self, spec: str) -> str:
        """One of the kinds of cells in a specification such as ``Positive / Negative / -``."""
        kind = self.rng.choice(re.split(r"\s+/\s+", spec))
        return FIELD.sub(self.field, "" if kind == "-" else kind)


# A set a paragraph: of each column its name, the part it takes, and what its cells are.
SETS = dict(
    re.findall(
        r"^(\w[^:\n]*):((?:.*\n)(?: .*\n)*)",
        """\
corona tweets: UserName = {row+3799} | ScreenName = {row+48751}
    | Location = London / - / Vagabonds / NY, USA / {title} | TweetAt = {day}-{month}-{year}
    | OriginalTweet (text) = {sentence} https://t.co/x1
    | Sentiment (label) = Positive / Negative / Neutral / Extremely Positive
STS-B: index = {row} | genre = main-captions / main-news / main-forums
    | filename = MSRvid / images / headlines | year = 2012test / 2014 / 2015 | old_index = {0..2000}
    | source1 = none | source2 = none | sentence1 (text) = {sentence}
    | sentence2 (pair) = {sentence}
    | score (label, number) = {0.0..5.0}
STS-B dev, few scores: index = {row} | genre = main-captions / main-news
    | filename = MSRvid / images | year = 2012test / 2014 | old_index = {0..2000} | source1 = none
    | source2 = none | sentence1 (text) = {sentence} | sentence2 (pair) = {sentence}
    | score (label) = {0..4}.{2..4}00
MRPC: Quality (label) = 0 / 1 | #1 ID = {100000..999999} | #2 ID = {100000..999999}
    | #1 String (text) = {sentence} | #2 String (pair) = {sentence}
QNLI: index = {row} | question (text) = {sentence} | sentence (pair) = {long}
    | label (label) = entailment / not_entailment
QQP: id = {row} | qid1 = {row} | qid2 = {row+60} | question1 (text) = {sentence}
    | question2 (pair) = {sentence} | is_duplicate (label) = 0 / 1
MNLI: index = {row} | promptID = {10000..99999} | pairID = {10000..99999}n
    | genre = fiction / government / slate / telephone | sentence1_binary_parse = ( {sentence} )
    | sentence2_binary_parse = ( {sentence} ) | sentence1_parse = (ROOT (S (NP {sentence})))
    | sentence2_parse = (ROOT (S (NP {sentence}))) | sentence1 (text) = {sentence}
    | sentence2 (pair) = {sentence} | label1 = neutral / entailment / contradiction
    | gold_label (label) = neutral / entailment / contradiction
RTE: index = {row} | sentence1 (text) = {long} | sentence2 (pair) = {sentence}
    | label (label) = entailment / not_entailment
SICK: pair_ID = {row+1} | sentence_A (text) = {sentence} | sentence_B (pair) = {sentence}
    | relatedness_score = {1..4}.{0..9} | entailment_judgment (label) = NEUTRAL / ENTAILMENT
        / CONTRADICTION
CoLA: = gj04 / bc01 / r-67 / cj99 | (label) = 0 / 1 | = - / * | (text) = {sentence}
Yelp: business_id = {code} | date = {year}-{month}-{day} | review_id = {code}
    | stars (label) = {1..5}
    | text (text) = {long} | type = review | user_id = {code} | cool = {0..9} | useful = {0..9}
    | funny = {0..9}
women's clothing: = {row} | Clothing ID = {700..1100} | Age = {18..80} | Title = - / {title}
    | Review Text (text) = {long} | Rating (label) = {1..5} | Recommended IND = 0 / 1
    | Positive Feedback Count = {0..30} | Division Name = General / General Petite
    | Department Name = Tops / Dresses / Bottoms | Class Name = Blouses / Dresses / Knits / Pants
drug reviews: uniqueID = {row+206461}
    | drugName = Valsartan / Guanfacine / Lybrel / Cialis / {title}
    | condition = ADHD / Birth Control / Pain / Depression | review (text) = "{long}"
    | rating (label) = {1..10} | date = {day}-{Mon}-12 | usefulCount = {0..200}
IMDB: review (text) = {long}<br /><br />{long} | sentiment (label) = positive / negative
fine foods: Id = {row+1} | ProductId = {code} | UserId = {code} | ProfileName = {person}
    | HelpfulnessNumerator = {0..5} | HelpfulnessDenominator = {0..9} | Score (label) = {1..5}
    | Time = {1303862400..1389996000} | Summary = {title} | Text (text) = {long}
airline tweets: tweet_id = {row+570306133677760513}
    | airline_sentiment (label) = neutral / positive / negative
    | airline_sentiment_confidence = {0.3..1.0} | negativereason = - / Bad Flight / Late Flight
    | negativereason_confidence = - / 0.7033 | airline = Virgin America / United / Delta
    | airline_sentiment_gold = - | name = {user} | negativereason_gold = - | retweet_count = 0
    | text (text) = @VirginAmerica {sentence} | tweet_coord = -
    | tweet_created = {year}-{month}-{day} {clock} -0800 | tweet_location = - / Lets Play / Austin
    | user_timezone = Eastern Time (US & Canada) / Quito
disaster tweets: id = {row} | keyword = ablaze / wreck / - / flood
    | location = - / Birmingham / {title} | text (text) = {sentence} | target (label) = 0 / 1
toxic comments: id = 0000{1000000000..9999999999}f | comment_text (text) = {long}
    | toxic (labels) = 0 / 0 / 1 | severe_toxic (labels) = 0 / 0 / 1 | obscene (labels) = 0 / 0 / 1
    | threat (labels) = 0 / 0 / 1 | insult (labels) = 0 / 0 / 1 | identity_hate (labels) = 0 / 0 / 1
BBC news: category (label) = business / sport / tech | filename = {row+100}.txt | title = {title}
    | content (text) = {long}
spam: v1 (label) = ham / ham / spam | v2 (text) = {sentence} | = - | = - | = -
Enron spam: Message ID = {row} | Subject = {title} | Message (text) = {long}
    | Spam/Ham (label) = spam / ham | Date = {year}-{month}-{day}
fake news: id = {row} | title = {title} | author = {person} | text (text) = {long}
    | label (label) = 0 / 1
fake and true news: title = {title} | text (text) = {long}
    | subject (label) = News / politics / worldnews | date = December {day}, {year}
AG news: Class Index (label) = {1..4} | Title = {title} | Description (text) = {sentence} {sentence}
Sentiment140: (label) = 0 / 4 | = {row+1467810369} | = Mon Apr 06 22:{10..59}:45 PDT 2009
    | = NO_QUERY | = _{user}_ | (text) = @me {sentence}
TripAdvisor: Review (text) = {long} | Rating (label) = {1..5}
Play store: App = 10 Best Foods for You | Translated_Review (text) = {sentence}
    | Sentiment (label) = Positive / Neutral / Negative | Sentiment_Polarity = {-1.0..1.0}
    | Sentiment_Subjectivity = {0.0..1.0}
Play store reviews: reviewId = gp:AOqpTOE{code}{code} | userName = {person}
    | userImage = https://lh3.googleusercontent.com/{code} | content (text) = {sentence}
    | score (label) = {1..5} | thumbsUpCount = {0..40} | reviewCreatedVersion = 4.17.0.3 / 4.16.6.2
    | at = {year}-{month}-{day} {clock}
    | replyContent = - / - / Hi, please write to us at support, thanks.
    | repliedAt = - / {year}-{month}-{day} {clock} | appId = com.anydo
movie reviews: PhraseId = {row+1} | SentenceId = {1..10} | Phrase (text) = {phrase}
    | Sentiment (label) = {0..4}
entity sentiment: = {2401..2410} | = Borderlands / Amazon / Nvidia / Xbox(Xseries)
    | (label) = Positive / Negative / Neutral / Irrelevant | (text) = {sentence}
stance: ID = {row} | Target = Atheism / Climate Change is a Real Concern / Feminist Movement
    | Tweet (text) = {sentence} #SemST | Stance (label) = FAVOR / AGAINST / NONE
sarcasm: article_link = https://www.theonion.com/{code} | headline (text) = {sentence}
    | is_sarcastic (label) = 0 / 1
Stack Overflow: Id = {row+34552656} | Title = {sentence} | Body = <p>{long}</p>
    | Tags = <java><repeat> / <python> / <javascript><optional>
    | CreationDate = {year}-{month}-{day} {clock} | Y (label) = HQ / LQ_EDIT / LQ_CLOSE
resumes: ID = {row+16852973} | Resume_str (text) = {long}
    | Resume_html = <div class="fontsize">{long}{long}</div>
    | Category (label) = HR / DESIGNER / TEACHER
news categories: link = https://www.huffpost.com/entry/{code} | headline = {sentence}
    | category (label) = POLITICS / WELLNESS / TRAVEL
    | short_description (text) = {sentence} {sentence} | authors = {person}, {person}
    | date = {year}-{month}-{day}
LIAR: = {10..9999}.json
    | (label) = false / half-true / mostly-true / true / barely-true / pants-fire
    | (text) = {sentence} | = economy / taxes,jobs / health-care | = {person}
    | = State representative / President / - | = Texas / Ohio / Florida | = republican / democrat
    | = {0..40} | = {0..40} | = {0..40} | = {0..40} | = {0..40}
    | = a mailer / a speech / an interview
Amazon polarity: (label) = 1 / 2 | = {title} | (text) = {long}
financial phrases: (label) = neutral / positive / negative | (text) = {sentence}
ATIS: (label) = atis_flight / atis_airfare / atis_city | (text) = {sentence}
opinions: Review Title = {title} | Opinion (text) = {long} | ReviewerName = {person}
    | Recommended (label) = Yes / No
hotels: address = {1..99} Main St | city = Tampa / Austin | country = US
    | name = Hotel Russo / Inn Vista | reviews.date = {year}-{month}-{day}T00:00:00Z
    | reviews.rating (label) = {1..5} | reviews.text (text) = {long} | reviews.title = {title}
    | reviews.username = {person}
Flipkart: product_name = Air Cooler with Trolley / Juicer Mixer | product_price = 3999 / 1999
    | Rate = {1..5} | Review = super! / awesome / fair / useless product
    | Summary (text) = {sentence}
    | Sentiment (label) = positive / negative / neutral
personality: type (label) = INFJ / ENTP / INTJ | posts (text) = '{long}|||{long}
mental health: = {row} | statement (text) = {sentence}
    | status (label) = Anxiety / Normal / Depression
complaints: Date received = {month}/{day}/{year}
    | Product = Mortgage / Debt collection / Credit card
    | Sub-product = - / FHA mortgage / Medical | Issue = Loan servicing / Disclosure
    | Consumer complaint narrative (text) = {long}
    | Company public response = - / Company chooses not to provide a public response
    | Company = BANK OF X / CITI | State = CA / TX | ZIP code = {10000..99999}
    | Tags = - / - / Older American | Submitted via = Web / Phone | Complaint ID = {row+1300000}
hate speech: = {row} | count = 3 | hate_speech = {0..3} | offensive_language = {0..3}
    | neither = {0..3} | class (label) = {0..2} | tweet (text) = {sentence}
wine: = {row} | country = Italy / US | description (text) = {sentence} {sentence}
    | designation = {title} | points = {80..100} | price = {10..90} | province = Oregon / Sicily
    | taster_name = {person} | title = {title} 2013 | variety = Pinot Noir / Riesling / Merlot
civil comments: id = {row} | target (label) = 0.0 / 0.0 / 0.2 / 0.1666 / {0.0..1.0}
    | comment_text (text) = {long} | severe_toxicity = {0.0..1.0} | obscene = {0.0..1.0}
    | created_date = {year}-{month}-{day} | likes = {0..5}
readability: id = {code} | url_legal = - | license = - | excerpt (text) = {long}
    | target (label, number) = {-3.0..1.0} | standard_error = {0.4..0.6}
Amazon reviews: marketplace = US | customer_id = {1000000..9999999} | review_id = {code}
    | product_id = {code} | product_parent = {1000000..99999999} | product_title = {title}
    | product_category = Books | star_rating (label) = {1..5} | helpful_votes = {0..9}
    | total_votes = {0..20} | vine = N / Y | verified_purchase = Y / N | review_headline = {title}
    | review_body (text) = {long} | review_date = {year}-{month}-{day}
sarcasm in threads: label (label) = 0 / 1 | comment (text) = {sentence} | author = {user}
    | subreddit = politics / nba | score = {-5..20} | ups = {-1..20} | downs = {-1..0}
    | date = 2016-10
    | created_utc = {year}-{month}-{day} {clock} | parent_comment = {sentence}
speaker reviews: rating (label) = {1..5} | date = 31-Jul-18
    | variation = Charcoal Fabric / Walnut Finish | verified_reviews (text) = {sentence}
    | feedback = 0 / 1
BoolQ: question (text) = {sentence} | title = {title} | answer (label) = true / false
    | passage (pair) = {long}
dialogue acts: Dialogue_ID = {1..8} | Utterance (text) = {sentence}
    | Emotion (label) = joy / anger / neutral
""",
        re.M,
    )
)
COLUMN = re.compile(r"(?P<name>[^(=]*?) ?(?:\((?P<parts>[\w, ]+)\))? ?= (?P<spec>.*)", re.S)
# Sets of which two columns may be meant, and which others are named beside the one that is taken.
DOUBTS = {
    "women's clothing": ("which_label", "Class Name"),
    "news categories": ("which_text", "headline"),
    "sarcasm in threads": ("which_text", "parent_comment"),
}


def columns_of(name: str) -> tuple[list[str], list[str], dict[str, object]]:
    """Return the names of a set's columns, what their cells are, and what must be found."""
    names, specs, expected = [], [], {}
    for at, column in enumerate(re.split(r"\s\| ", SETS[name].strip()), start=1):
        found = COLUMN.fullmatch(column.strip())
        assert found, column
        names.append(found["name"])
        specs.append(found["spec"])
        for part in filter(None, (found["parts"] or "").split(", ")):
            called = found["name"] or f"column {at}"
            several = (*expected.get("labels", ()), called)
            expected[part] = {"number": True, "labels": several}.get(part, called)
    return names, specs, expected


def written(name: str, folder: Path, *, sign: str = ",", seed: int = 0, rows: int = ROWS) -> Path:
    names, specs, _ = columns_of(name)
    made, lines = Made(seed), [names] * any(names)
    for made.row in range(rows):
        lines.append(list(map(made.cell, specs)))
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=sign).writerows(lines)
    path = folder / ("table.tsv" if sign == "\t" else "table.csv")
    path.write_text(file.getvalue(), "utf-8", newline="")
    return path


@pytest.mark.parametrize("sign", [",", "\t"])
@pytest.mark.parametrize("name", slow.but_each(3, SETS))
def test_the_columns_of_a_famous_set_are_found(tmp_path: Path, name: str, sign: str) -> None:
    expected = columns_of(name)[2]
    for seed, rows in ((0, ROWS), (1, 36), (2, 300)):
        found = read(written(name, tmp_path, sign=sign, seed=seed, rows=rows)).columns
        assert {key: getattr(found, key) for key in expected} == expected, (seed, rows)
        assert bool(found.pair) == ("pair" in expected)
        assert not found.labels or "labels" in expected


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
        label = made.cell("neutral / entailment / contradiction")
        one, other = made.sentence(), made.sentence()
        lines.append({
            "annotator_labels": [label] * 5, "captionID": f"{row}.jpg#4", "gold_label": label,
            "pairID": f"{row}.jpg#4n", "sentence1": one, "sentence1_binary_parse": f"( {one} )",
            "sentence1_parse": f"(ROOT (S {one}))", "sentence2": other,
            "sentence2_parse": f"(ROOT (S {other}))",
        })  # fmt: skip
    path = tmp_path / "snli.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    found = read(path).columns
    assert (found.text, found.pair, found.label) == ("sentence1", "sentence2", "gold_label")
    assert not found.separator
