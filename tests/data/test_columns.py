"""Columns are found or chosen, other formats read alike, and what spoils a comparison is said."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Value
from pyarrow.parquet import write_table
from read_tables import kinds, says

from heads import api
from heads.data.columns import guess
from heads.data.dataset import read
from heads.data.files import open_table
from heads.data.table import Columns
from heads.errors import DataError, HeadsError, LimitError
from heads.problem import MULTI_LABEL
from heads.settings import PUBLIC, Limits, use_limits

WORDS = [
    "a", "red", "fox", "runs", "over", "the", "old", "stone", "bridge", "in", "the", "cold",
    "rain", "at", "night", "again",
]  # fmt: skip


def sentence(row: int) -> str:
    return f"{WORDS[row % 13]} {WORDS[(row * 7) % 11]} {'x' * (row % 17)} {chr(97 + row % 26)}{row}"


def rows(count: int, *columns: Callable[[int], object], header: str = "", sign: str = ",") -> str:
    lines = [sign.join(str(column(row)) for column in columns) for row in range(count)]
    return "\n".join([header, *lines] if header else lines)


# The dialect


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbftext,label\r\na,x\r\nb,y\r\n",
        b"text,label\ra,x\rb,y\r",
        b" Text , LABEL \na,x\nb,y",
        b'"text","label"\n"a","x"\n"b","y"\n',
        b"text\tlabel\n\n\na\tx\n   \nb\ty\n\n",
        b"sep=;\r\ntext;label\r\na;x\r\nb;y\r\n",
        "text|label\na|x\nb|y".encode("utf-16"),
        "text;label\na;x\nb;y".encode("utf-16-be"),
        "text;label\na;x\nb;y".encode("utf-32"),
        b"text,label,\na,x,\nb,y,\n",
        b"text,label\na,x,,,\nb,y\n",
        b"text,label,\na,x\nb,y\n",
    ],
)
def test_common_dialects_are_read_alike(write: Callable[..., Path], content: bytes) -> None:
    corpus = read(write(content)).corpus
    assert (corpus.texts, corpus.classes, corpus.name) == (("a", "b"), ("x", "y"), "table")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("text,label\na,x\nb\nc,y\n", 3),
        ("text,label\na,x\nb, and c,y\n", 3),
        ('text,label\n"a\nb",x\nc\nd,y\n', 4),
        ('text,label\na,x\n"b,y\n', 3),
        ('text,label\na,x\n"b" c,y\n', 3),
        (b"text,label\n\xc3\xa9t\xc3\xa9,x\ncaf\xe9,y\n", 3),
        (b"\xff\xfet\x00,\x00l\x00\n\x00\x00\xd8a\x00", 2),
        ("text,label,text\na,x,b\n", 1),
        ('<?xml version="1.0"?><a/>', 1),
        ('[{"text":"a","label":"x"},\n{"text":"b"', 2),
        ('[{"text":"a","label":"x"},\n\n5]', 3),
        ('[{"text":"a","label":"x"}]\n{}', 1),
        ('{"text":"a","label":"x"} {}\n', 1),
        ('{"text":"a","label":"x"}\n[1]\n', 2),
        ('{"text":"a","label":"x"}\n{"text":"a","text":"b"}\n', 2),
        ('[{"text":"a","label":"x"},]', 1),
        ('{"a":' * 100_000, 1),
        ("[" * 100_000, 1),
    ],
)
def test_an_error_names_its_line(
    write: Callable[..., Path], content: str | bytes, line: int
) -> None:
    is_json = content[:1] in ("{", "[")
    with pytest.raises(DataError) as refused:
        read(write(content, "t.json" if is_json else "t.csv"))
    assert (refused.value.line, bool(refused.value.hint)) == (line, True)


@pytest.mark.parametrize("encoding", ["shift_jis", "gbk", "euc-kr", "big5", "cp1251", "cp1253"])
def test_other_alphabets_are_never_read_as_western(
    write: Callable[..., Path], encoding: str
) -> None:
    letters = {
        "shift_jis": "テスト", "gbk": "电影很好", "euc-kr": "영화는 좋다", "big5": "電影很好",
        "cp1251": "Очень хороший", "cp1253": "Πολύ καλή",
    }[encoding]  # fmt: skip
    content = rows(
        20, lambda row: f"{letters} {row}", lambda row: "xy"[row % 2], header="text,label"
    )
    with pytest.raises(DataError):
        read(write(content.encode(encoding)))


def test_western_letters_are_read_wherever_they_first_come(write: Callable[..., Path]) -> None:
    head = rows(5000, sentence, lambda row: "xy"[row % 2], header="text,label").encode()
    data = read(write(head + "\nL’été à Noël « très œuvre » … 5 €,x\n".encode("cp1252")))
    assert data.corpus.texts[-1] == "L’été à Noël « très œuvre » … 5 €"
    assert data.findings[0].lines == (5002,)


def test_whether_there_is_a_header_can_be_said(write: Callable[..., Path]) -> None:
    path = write(rows(20, sentence, lambda row: "xy"[row % 2]))
    assert len(read(path).corpus) == 20
    assert "header" in kinds(read(path))
    told = read(path, header=False)
    assert (len(told.corpus), kinds(told) & {"header"}) == (20, set())
    assert read(path, header=True).corpus.texts[0] == sentence(1).strip()
    named = write("text,label\na,x\ntext,label\nb,y\n")
    assert len(read(named, header=False).corpus) == 4
    data = read(named)
    assert (data.corpus.texts, data.rows_in) == (("a", "b"), 3)
    assert data.dropped == {"names of the columns again": (3,)}


# The columns


def label_of(row: int) -> str:
    return ("good", "bad", "so so")[row % 3]


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("id,review_text,star_rating", 1, 2),
        ("Unnamed: 0,clean_txt,kind", 1, 2),
        ("ID,Utterance,Intent Name", 1, 2),
        ("date,Comments,final class", 1, 2),
        ("n,title,y", 1, 2),
        ("n,was war gut,Wertung", 1, 2),
    ],
)
def test_columns_are_guessed(
    write: Callable[..., Path], header: str, text: int, label: int
) -> None:
    names = header.split(",")
    table = open_table(write(rows(40, str, sentence, label_of, header=header)))
    assert guess(table) == Columns(text=names[text], label=names[label])


def test_a_split_says_nothing_but_the_names_of_parts(write: Callable[..., Path]) -> None:
    content = rows(
        40, sentence, label_of, lambda row: "train" if row else "by hand", header="text,label,split"
    )
    assert guess(open_table(write(content))).split == ""


def test_a_file_that_is_sorted_by_class_is_looked_at_as_a_whole(write: Callable[..., Path]) -> None:
    content = rows(
        5_000, sentence, lambda row: f"shelf {row % 60}",
        lambda row: "low" if row < 2_500 else "high", header="a,b,c",
    )  # fmt: skip
    assert guess(open_table(write(content))) == Columns(text="a", label="c")


def test_a_title_above_names_that_are_said_to_be_there_is_left_out(
    write: Callable[..., Path],
) -> None:
    path = write("Answers of May,,\nnumber,text,label\n1,one two,x\n2,two three,y\n3,four,x\n")
    for header in (None, True):
        table = open_table(path, header)
        assert table.columns == ("number", "text", "label")
        assert len(table.rows) == 3


def test_a_date_is_no_text_and_a_split_no_label(write: Callable[..., Path]) -> None:
    content = rows(
        40, lambda row: f"2024/01/{row + 1:02d} 10:00:00",
        lambda row: ("train", "Train", "dev", "TEST")[row % 4], lambda row: f"ok {row}", label_of,
        header="When,Split,Why,Again",
    )  # fmt: skip
    data = read(write(content))
    assert data.columns == Columns(text="Why", label="Again", split="Split")
    assert data.corpus.parts == ("train", "train", "validation", "test") * 10


@pytest.mark.parametrize(
    "pair", ["sentence1,sentence2", "premise,hypothesis", "Question 1,Question 2", "s1,s2"]
)
def test_two_texts_are_found_by_their_names(write: Callable[..., Path], pair: str) -> None:
    content = rows(
        10, str, sentence, lambda row: f"b {sentence(row)}", label_of, header=f"n,{pair},gold"
    )
    data = read(write(content))
    assert [data.columns.text, data.columns.pair] == pair.split(",")
    assert data.columns.label == "gold"
    assert data.corpus.pairs[0] == f"b {sentence(0)}".strip()


def test_columns_can_be_chosen(write: Callable[..., Path]) -> None:
    path = write("a,b,c,part\nu,x,1,train\nv,y,2,test\nw,x|y,1,train\n")
    data = read(path, Columns(text="a", label="c", pair="b", split="part"))
    assert (data.corpus.texts, data.corpus.pairs) == (("u", "v", "w"), ("x", "y", "x|y"))
    assert data.corpus.parts == ("train", "test", "train")
    assert not data.guessed
    data = read(path, Columns(text="a", label="b", separator="|"))
    assert data.corpus.problem is MULTI_LABEL
    assert data.classes == {"x": 2, "y": 2}


@pytest.mark.parametrize(
    ("columns", "line", "column"),
    [
        (Columns(text="txt", label="label"), None, "txt"),
        (Columns(text="text", label=""), None, None),
        (Columns(text="text", label="text"), None, None),
        (Columns(text="text", label="label", split="other"), 2, "other"),
    ],
)
def test_a_wrong_choice_is_refused(
    write: Callable[..., Path], columns: Columns, line: int | None, column: str | None
) -> None:
    with pytest.raises(DataError) as refused:
        read(write("text,label,other\na,x,b\nc,y,d\n"), columns)
    assert (refused.value.line, refused.value.column) == (line, column)


@pytest.mark.parametrize(
    "content", ["text,split\na,train\n", "sentence1,sentence2\na,b\nc,d\n", "{}"]
)
def test_too_few_columns_are_refused(write: Callable[..., Path], content: str) -> None:
    with pytest.raises(DataError):
        read(write(content, "few.json" if content == "{}" else "few.csv"))


# JSON


def test_json_keeps_values_as_they_are_written(write: Callable[..., Path]) -> None:
    with pytest.raises(DataError):
        read(write('{"text":1.0,"label":007}', "t.jsonl"))
    content = (
        '{"text":1.0,"label":1e999}\n\n{"label":true,"more":[1],"text":"a\\u0000b"}\n{"text":"c"}'
    )
    table = open_table(write(content, "t.jsonl"))
    assert table.columns == ("text", "label", "more")
    assert table.rows == [["1.0", "1e999", ""], ["a\0b", "true", '["1"]'], ["c", "", ""]]
    assert table.lines == [1, 3, 4]
    with pytest.raises(DataError):
        read(write(content, "t.jsonl"), Columns(text="text", label="more"))


# Parquet and folders


def parquet(path: Path, columns: dict[str, Sequence]) -> Path:
    write_table(pa.table(columns), path)
    return path


def test_parquet_is_read_as_strings(tmp_path: Path) -> None:
    columns = {
        "text": ["007", None, "NA", "x"], "label": [1, 0, 0, 1], "real": [1.0, 2.5, None, 0.1],
        "flag": [True, False, None, True],
    }  # fmt: skip
    table = open_table(parquet(tmp_path / "t.parquet", columns))
    assert table.rows == [
        ["007", "1", "1.0", "true"], ["", "0", "2.5", "false"], ["NA", "0", "", ""],
        ["x", "1", "0.1", "true"],
    ]  # fmt: skip
    data = read(tmp_path / "t.parquet")
    assert data.dropped == {"no text": (2,)}
    assert "row 2" in says(data, "no_text")


def test_names_of_classes_are_read_where_they_are_kept(tmp_path: Path) -> None:
    kinds = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    rows = Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, kinds)
    rows.to_parquet(tmp_path / "t.parquet")
    data = read(tmp_path / "t.parquet")
    assert (data.corpus.classes, data.corpus.targets) == (("neg", "pos"), ((1,), (0,)))
    assert data.dropped == {"no label": (3,)}


def test_parquet_is_bounded_and_lists_are_refused(tmp_path: Path) -> None:
    path = parquet(tmp_path / "t.parquet", {"text": [["a"], ["b"]], "label": ["x", "y"]})
    with pytest.raises(DataError):
        read(path)
    bomb = parquet(path, {"text": ["a" * 1_000_000] * 100, "label": ["x"] * 100})
    assert bomb.stat().st_size < 1_000_000
    with use_limits(PUBLIC), pytest.raises(LimitError):
        read(bomb)
    once = pa.DictionaryArray.from_arrays(pa.array([0] * 20_000), pa.array(["a" * 45_000_000]))
    bomb = parquet(path, {"text": once, "label": ["x", "y"] * 10_000})
    with use_limits(PUBLIC), pytest.raises(LimitError):
        read(bomb)  # 900 GB, were each row given its text
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError):
        read(path)


def test_each_batch_makes_only_its_own_words(tmp_path: Path, seconds: Callable[[], float]) -> None:
    many = {"text": [f"text {row}" for row in range(200_000)], "label": ["x", "y"] * 100_000}
    assert open_table(parquet(tmp_path / "t.parquet", many)).rows[-1][0] == "text 199999"
    assert seconds() < 10  # 1 where nothing else runs; 40 if every batch made all words


def test_a_saved_folder_is_read(tmp_path: Path) -> None:
    train = Dataset.from_dict({"text": ["a", "b"], "label": ["x", "y"]})
    test = Dataset.from_dict({"text": ["c", "A "], "label": ["x", "y"]})
    train.save_to_disk(tmp_path / "one")
    assert read(tmp_path / "one").corpus.texts == ("a", "b")
    DatasetDict(train=train, test=test).save_to_disk(tmp_path / "both")
    data = read(tmp_path / "both")
    assert data.corpus.parts == ("train", "train", "test", "test")
    assert says(data, "split_overlap").startswith("1 text for validation or testing")
    assert data.corpus.texts == ("a", "b", "c", "A ")


def test_a_folder_of_parquet_files_is_read(tmp_path: Path) -> None:
    for part in ("test", "train"):
        name = tmp_path / f"{part}-00000-of-00001.parquet"
        parquet(name, {"text": [f"{part} a", f"{part} b"], "label": ["x", "y"]})
    assert read(tmp_path).corpus.parts == ("test", "test", "train", "train")


def test_a_wrong_folder_and_what_is_no_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError):
        read(tmp_path)
    for files in ('{"_data_files": [{"filename": "../x.arrow"}]}', "{", "[]", '{"_data_files": 5}'):
        (tmp_path / "state.json").write_text(files)
        with pytest.raises(DataError):
            read(tmp_path)
    (tmp_path / "state.json").write_text('{"_data_files": [{"filename": "gone.arrow"}]}')
    for path in (tmp_path, tmp_path / "none.csv", Path("/dev/null")):
        with pytest.raises(DataError):
            read(path)
    with pytest.raises(DataError):
        api.read("nowhere.csv")


# Warnings


def test_a_leak_across_the_split_is_named(write: Callable[..., Path]) -> None:
    data = read(write("text,label,split\na,x,train\nb,y,train\nA ,x,test\nc,y,test\n"))
    assert says(data, "split_overlap").endswith("line 4. Remove them, or scores are too good.")
    data = read(write("text,label,split\na,x,train\nb,y,train\n"))
    assert (data.columns.split, data.corpus.parts) == ("split", ())


def test_words_that_are_also_labels_are_no_leak(write: Callable[..., Path]) -> None:
    def text(row: int) -> str:
        return f"{sentence(row)} love and joy to a {'x' if row % 3 else 'joy'}"

    content = rows(60, text, lambda row: ("love", "joy", "a")[row % 3], header="text,label")
    assert "label_in_text" not in kinds(read(write(content)))
    marked = rows(
        60, lambda row: f"{sentence(row)} #{label_of(row)}", label_of, header="text,label"
    )
    assert "in 100 % of the rows" in says(read(write(marked)), "label_in_text")


def test_ordinary_labels_are_not_suspicious(write: Callable[..., Path]) -> None:
    names = ["sci/tech", "Toys & Games, new", "very positive", "été", "да", "👩‍🔬", "C#", "1.5"]
    content = "\n".join(
        ["text\tlabel", *(f"{sentence(row)}\t{names[row % 8]}" for row in range(80))]
    )
    assert read(write(content)).findings == ()


def test_labels_that_are_no_classes_are_refused(write: Callable[..., Path]) -> None:
    own = rows(30, sentence, lambda row: f"label {row}", header="text,label")
    with pytest.raises(DataError):
        read(write(own))
    real = rows(200, sentence, lambda row: f"{row % 50 / 10}", header="text,label")
    with pytest.raises(DataError):
        read(write(real), Columns(text="text", label="label"))
    several = rows(30, sentence, lambda row: f"a|{row}", header="text,label")
    columns = Columns(text="text", label="label", separator="|")
    with (
        use_limits(Limits(classes=30)),
        pytest.raises(LimitError),
    ):
        read(write(several), columns)
    stars = rows(200, sentence, lambda row: f"{row % 10 / 2}", header="text,label")
    assert len(read(write(stars)).corpus.classes) == 10
    cut = rows(20, sentence, lambda row: "L" * 100 + "ab"[row % 2], header="text,label")
    with pytest.raises(DataError):
        read(write(cut))


def test_all_of_it_can_be_told_as_json(write: Callable[..., Path]) -> None:
    data = read(write("text,label\na,x\n,y\nb,y\nA,y\n"))
    told = json.loads(json.dumps(data.as_json()))
    assert (told["rows_in"], told["rows"], told["guessed"]) == (4, 3, True)
    assert told["dropped"] == {"no text": {"count": 1, "lines": [3]}}
    assert told["columns"]["text"] == "text"
    assert told["classes"] == {"x": 1, "y": 2}
    assert told["preview"] == {
        "columns": ["text", "label"], "rows": [["a", "x"], ["", "y"], ["b", "y"], ["A", "y"]],
    }  # fmt: skip
    assert {"no_text", "conflict"} <= {warning["kind"] for warning in told["warnings"]}


def test_a_name_cannot_forge_a_line(tmp_path: Path) -> None:
    path = tmp_path / "a\nERROR forged\x1b[31m.csv"
    path.write_text("text\na\n")
    with pytest.raises(HeadsError) as refused:
        read(path)
    assert str(refused.value).isprintable()
