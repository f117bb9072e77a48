"""Tables on disk: what is read is what was written, whole or in pieces, and errors say where."""

import builtins
import datetime
import gzip
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from unimodal.datasets.files import TableError, TableWriter, column, read_table, stream_table

TEXT = pd.Series(["text"]).dtype
NO_TABLE = "must be a table: a file name ends in one of .csv, .tsv, .txt, .csv.gz, .parquet, .pq"


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def archive(data):
    return gzip.compress(data, mtime=0)  # names of tests must not depend on the time


def put(name, data):
    path = Path(name)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def assert_same(found, expected):
    pd.testing.assert_frame_equal(found, pd.DataFrame(expected) if isinstance(expected, dict) else expected)


def text(*values):
    return pd.Series(values, dtype=TEXT)


def fails(message):
    return pytest.raises(TableError, match=f"^{re.escape(message)}$")


# Text


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", "n,word\n1,x\n2,y z\n"),
        ("a.csv", "n;word\n1;x\n2;y z"),
        ("a.tsv", "n\tword\r\n1\tx\r\n2\ty z\r\n"),
        ("a.txt", "n|word\n1|x\n2|y z\n"),
        ("a.CSV", '"n","word"\n"1","x"\n"2","y z"\n'),
        ("a.csv", b"\xef\xbb\xbfn,word\n1,x\n2,y z\n"),
        ("a.csv", "\nn,word\n\n1,x\n2,y z\n\n"),
        ("a.csv.gz", archive(b"n,word\n1,x\n2,y z\n")),
        ("a.csv", "n;word\n1;x\n2;y z\n"),
    ],
)
def test_delimiters_quotes_and_line_ends(name, data):
    assert_same(read_table(put(name, data)), {"n": [1, 2], "word": text("x", "y z")})


def test_the_delimiter_is_the_one_that_makes_rows_as_wide_as_the_header():
    found = read_table(put("a.csv", 'a;b;c\n1,5;"x;y";2\n2,5;z;3\n'))
    assert_same(found, {"a": text("1,5", "2,5"), "b": text("x;y", "z"), "c": [2, 3]})
    assert_same(read_table(put("b.csv", 'a\n"1,5"\n')), {"a": text("1,5")})
    assert_same(read_table(put("c.csv", 'a,b\n"x\ny",1\n')), {"a": text("x\ny"), "b": [1]})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["007", "-3"], [7, -3]),
        (["1", "2.50", "1e3"], [1.0, 2.5, 1000.0]),
        (["1", "", "NA", "NaN", "null", "?"], [1.0, *[np.nan] * 5]),
        (["9223372036854775807", "1"], [2**63 - 1, 1]),
        (["12345678901234567890", "1"], [12345678901234567890.0, 1.0]),
        (["0.1", "1e-320", "123456789.12345678"], [0.1, 1e-320, 123456789.12345678]),
        (["1", "inf"], [1.0, np.inf]),
        (["", ""], [np.nan, np.nan]),
        (["NA", "none", ""], text("NA", "none", None)),
        (["NA", "1", "x"], text("NA", "1", "x")),
        (["None", "", "no"], text("None", None, "no")),
        (["1_000", "2"], text("1_000", "2")),
        (["True", "False"], text("True", "False")),
        (["inf", "nan"], text("inf", "nan")),
    ],
)
def test_what_a_column_is(fields, expected):
    path = put("a.csv", "x,row\n" + "".join(f"{field},{row}\n" for row, field in enumerate(fields)))
    assert_same(read_table(path), {"x": expected, "row": range(len(fields))})


def test_some_columns_in_another_order():
    path = put("a.csv", "a,b,c\n1,x,2\n")
    assert_same(read_table(path, ["c", "a"]), {"c": [2], "a": [1]})
    with fails("a.csv: there is no column 'B'; did you mean 'b'? (the columns are 'a', 'b', 'c')"):
        read_table(path, ["B"])
    pd.DataFrame({"a": [1], "a.b": ["x"]}).to_parquet("a.parquet")
    assert_same(read_table("a.parquet", ["a"]), {"a": [1]})
    with fails("a.parquet: there is no column 'd' (the columns are 'a', 'a.b')"):
        read_table("a.parquet", ["d"])


def test_columns_without_a_name_get_one():
    assert list(read_table(put("a.csv", ",x,\n0,1,2\n"))) == ["Unnamed: 0", "x", "Unnamed: 2"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.csv", "", "a.csv is empty"),
        ("a.csv", "\n\n", "a.csv is empty"),
        ("a.csv.gz", archive(b""), "a.csv.gz is empty"),
        ("a.csv", "x,y\n", "a.csv has a header but no rows"),
        ("a.csv", "x,y\n1,2\n1,2,3\n", "a.csv: line 3 has 3 fields, the header has 2"),
        ("a.csv", "x,y\n\n1,2\n1\n", "a.csv: line 4 has 1 field, the header has 2"),
        ("a.csv", 'x,y\n"a\nb",1\n"c\nd"\n', "a.csv: line 4 has 1 field, the header has 2"),
        ("a.csv", b"x,y\n1,2\n1,\xe9\n", "a.csv: line 3 is not UTF-8 text (byte 0xe9); save it as UTF-8"),
        ("a.tsv.gz", archive(b"x\xe9"), "a.tsv.gz: line 1 is not UTF-8 text (byte 0xe9); save it as UTF-8"),
        ("a.csv", "x,y\n".encode("utf-16"), "a.csv: line 1 is not UTF-8 text (byte 0xff); save it as UTF-8"),
        ("a.csv", b"x,y\n1,\0\n", "a.csv: line 2 has a NUL byte: this is no text file, or a damaged one"),
        ("a.csv", "x,y,x\n1,2,3\n", "a.csv has more than one column named 'x'"),
        ("a.csv", 'x,y\n1,2\n"3,4\n5,6\n', "a.csv: line 3: a quote is never closed"),
        ("a.csv", 'x,y\n"1"2,3\n', "a.csv: line 2: ',' expected after '\"'"),
        ("a.csv.gz", b"x,y\n1,2\n", "a.csv.gz is damaged: Not a gzipped file (b'x,')"),
        ("a.xlsx", "x", f"a.xlsx {NO_TABLE}"),
    ],
)  # fmt: skip
def test_texts_are_checked(name, data, message):
    path = put(name, data)
    with fails(message):
        read_table(path)
    with fails(message):
        list(stream_table(path))


def test_a_cut_archive_is_damaged():
    data = archive("\n".join(["n,square", *(f"{i},{i**2}" for i in range(999))]).encode())
    with pytest.raises(TableError, match=r"^a\.csv\.gz is damaged: Compressed file ended before"):
        read_table(put("a.csv.gz", data[:-20]))


def test_errors_far_behind_the_first_lines_have_their_place():
    rows = "".join(f"{i},x\n" for i in range(70_000))
    with fails("a.csv: line 70002 has 3 fields, the header has 2"):
        read_table(put("a.csv", f"n,word\n{rows}1,2,3\n"))
    with fails("b.csv: line 70002 is not UTF-8 text (byte 0xff); save it as UTF-8"):
        read_table(put("b.csv", f"n,word\n{rows}1,".encode() + b"\xff\n"))


def test_paths_are_checked():
    put("grades.csv", "a\n1\n")
    Path("folder.csv").mkdir()
    with fails("grade.csv does not exist; did you mean 'grades.csv'?"):
        read_table("grade.csv")
    with fails("nowhere/grades.csv does not exist"):
        stream_table(Path("nowhere/grades.csv"))
    with fails("folder.csv is a folder, not a file"):
        read_table("folder.csv")
    with pytest.raises(ValueError, match="rows must be at least 1, got 0"):
        stream_table("grades.csv", rows=0)


# Pieces


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("fields", "dtype"),
    [
        (["1", "2", "3", "x", "007"], TEXT),  # text, and as it stands, from the first piece on
        (["1", "2", "3", "4.5", "6"], np.float64),
        (["1", "2", "3", "", "6"], np.float64),
        (["NA", "", "1", "2", "3"], np.float64),
        (["NA", "", "1", "2", "x"], TEXT),
        (["NA", "NA", "", "", "null"], TEXT),
        (["", "", "", "", ""], np.float64),
        (["1", "2", "3", "4", "5"], np.int64),
    ],
)
def test_pieces_have_the_dtypes_of_the_whole(monkeypatch, rows, fields, dtype):
    path = put("a.csv", "x,row\n" + "".join(f"{field},{row}\n" for row, field in enumerate(fields)))
    whole = read_table(path)
    assert whole["x"].dtype == dtype
    pieces = list(stream_table(path, rows))
    assert [len(piece) for piece in pieces] == [len(range(i, min(i + rows, 5))) for i in range(0, 5, rows)]
    assert {piece["x"].dtype for piece in pieces} == {whole["x"].dtype}
    assert_same(pd.concat(pieces, ignore_index=True), whole)
    if dtype == TEXT:
        assert whole["x"].fillna("").tolist() == fields
    monkeypatch.setattr("unimodal.datasets.delimited._ROWS", rows)
    assert_same(read_table(path), whole)


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_pieces_of_parquet(rows):
    frame = pd.DataFrame(
        {
            "whole": [1, 2, 3],
            "gap": pd.array([1, 2, None], dtype="Int64"),
            "truth": pd.array([True, None, False], dtype="boolean"),
            "sure": [True, False, True],
            "word": text("a", None, "NA"),
            "x": [0.5, np.nan, 1e300],
        },
        index=[5, 6, 9],
    )
    frame.to_parquet("a.parquet", row_group_size=2)
    whole = read_table("a.parquet")
    assert_same(whole, frame.reset_index(drop=True).astype({"gap": float}))
    assert_same(pd.concat(stream_table("a.parquet", rows), ignore_index=True), whole)


@pytest.mark.parametrize(
    "values",
    [
        [None, None, datetime.date(2020, 1, 1)],
        [None, None, datetime.time(12)],
        [Decimal("1.5"), None, Decimal("111.5")],
        [None, None, b"bytes"],
        [None, None, [1, 2]],
    ],
    ids=["date", "time", "decimal", "bytes", "list"],
)
def test_what_pandas_has_no_type_for_is_written_as_it_was(values):
    """Pieces in which all are missing, or all numbers are short, are of the same type as the others."""
    table = pa.table({"a": values})
    parquet.write_table(table, "given.parquet")
    with TableWriter("copy.parquet") as writer:
        for piece in stream_table("given.parquet", 1):
            writer.write(piece)
    assert parquet.read_table("copy.parquet").equals(table)


def test_an_ordered_categorical_keeps_its_order_in_parquet():
    grade = pd.Categorical(["low", "high", None], categories=["low", "mid", "high"], ordered=True)
    with TableWriter("a.pq") as writer:
        writer.write(pd.DataFrame({"grade": grade}))
    assert read_table("a.pq")["grade"].dtype == grade.dtype
    assert [piece["grade"].dtype for piece in stream_table("a.pq", 2)] == [grade.dtype] * 2


def test_parquet_files_are_checked():
    with pytest.raises(
        TableError, match=r"^a\.parquet is no Parquet file, or a damaged one: .*magic bytes"
    ) as error:
        read_table(put("a.parquet", b"PAR1 and no more"))
    assert "\n" not in str(error.value)
    data = parquet.write_table(pa.table({"x": range(9999)}), "b.parquet") or Path("b.parquet").read_bytes()
    for damaged in (data[:-100], data[:50] + b"\xff" * 200 + data[250:]):
        with pytest.raises(TableError, match=r"^c\.parquet is no Parquet file, or a damaged one: "):
            list(stream_table(put("c.parquet", damaged)))
    parquet.write_table(pa.table([[1], [2]], names=["x", "x"]), "d.parquet")
    with fails("d.parquet has more than one column named 'x'"):
        read_table("d.parquet")
    pd.DataFrame({"x": []}).to_parquet("e.parquet")
    with fails("e.parquet has columns but no rows"):
        next(stream_table("e.parquet"))


# Writing

CELLS = st.text(alphabet="ab,;\t|\"' \n\r1é", max_size=5)


@settings(max_examples=50)
@given(
    st.lists(st.tuples(CELLS, st.floats(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=8),
    st.data(),
)
def test_what_is_written_in_pieces_is_read(rows, data):
    frame = pd.DataFrame(rows, columns=["word", "x", "n"])
    frame["word"] = pd.Series([f"w{word}" if i else None for i, word in enumerate(frame["word"])], dtype=TEXT)
    suffix = data.draw(st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz", ".parquet"]))
    cut = data.draw(st.integers(0, len(rows)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a{suffix}")
        with TableWriter(path) as writer:
            writer.write(frame[:cut])
            writer.write(frame[cut:])
        found = read_table(path, ["x", "n"] if len(rows) == 1 and suffix != ".parquet" else None)
        assert [file.name for file in Path(folder).iterdir()] == [path.name]
    expected = frame[list(found)]
    if suffix != ".parquet" and not np.isfinite(expected["x"]).any():
        found, expected = found.drop(columns="x"), expected.drop(columns="x")
    assert_same(found, expected)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.parquet"])
def test_a_file_appears_whole_or_not_at_all(name):
    frame = pd.DataFrame({"x": [1, 2]})
    with TableWriter(name) as writer:
        writer.write(frame)
        assert not Path(name).exists()
    with suppress(ZeroDivisionError), TableWriter(name) as writer:
        writer.write(frame * 10)
        1 / 0  # noqa: B018
    assert_same(read_table(name), frame)
    with TableWriter(name) as writer:
        writer.write(frame + 1)
    assert_same(read_table(name), frame + 1)
    with fails(f"{name} is not written: there was nothing to write"), TableWriter(name):
        pass
    assert [file.name for file in Path().iterdir()] == [name]


def test_a_column_of_gaps_alone_is_not_a_blank_line():
    frame = pd.DataFrame({"x": [1.0, np.nan, 2.0]})
    with TableWriter("a.csv") as writer:
        writer.write(frame)
    assert_same(read_table("a.csv"), frame)


def write(name, *frames):
    with TableWriter(name) as writer:
        for frame in frames:
            writer.write(frame)


def test_what_cannot_be_written():
    frame = pd.DataFrame({"x": [1]})
    Path("folder.csv").mkdir()
    with fails(f"a.xls {NO_TABLE}"):
        TableWriter("a.xls")
    with fails("folder.csv is a folder, not a file"):
        TableWriter("folder.csv")
    with fails("nowhere/a.csv cannot be written: there is no folder nowhere"):
        TableWriter("nowhere/a.csv")
    with fails("a.csv is not open: write inside a with block"):
        TableWriter("a.csv").write(frame)
    for name, other, message in [
        ("a.csv", frame.rename(columns={"x": "y"}), "a.csv: all pieces must have the columns 'x', got 'y'"),
        (
            "a.pq",
            frame + 0.5,
            "a.pq: Float value 1.500000 was truncated converting to int64: Conversion failed",
        ),
    ]:
        with pytest.raises(TableError, match=f"^{re.escape(message)}"):
            write(name, frame, other)
    assert [file.name for file in Path().iterdir()] == ["folder.csv"]


# Columns and what is optional


def test_a_column_by_name():
    frame = pd.DataFrame({f"column{i}": [i] for i in range(12)})
    assert column(frame, "column3").tolist() == [3]
    names = ", ".join(repr(f"column{i}") for i in range(10))
    with fails(f"there is no column 'Column11'; did you mean 'column11'? (the columns are {names}, ...)"):
        column(frame, "Column11")
    with fails("there is no column 'z' (the columns are 'a')"):
        column(frame[["column1"]].set_axis(["a"], axis=1), "z")


@pytest.mark.parametrize(
    ("name", "missing", "message"),
    [
        ("a.csv", "pandas", r"tables need pandas: pip install 'unimodal\[cli\]'"),
        ("a.parquet", "pyarrow", r"Parquet files need pyarrow: pip install 'unimodal\[cli\]'"),
    ],
)
def test_optional_packages_are_named(monkeypatch, name, missing, message):
    real = builtins.__import__

    def importing(wanted, *args, **kwargs):
        if wanted.split(".")[0] == missing:
            raise ModuleNotFoundError(wanted)
        return real(wanted, *args, **kwargs)

    path = put(name, "x\n1\n")
    monkeypatch.setattr(builtins, "__import__", importing)
    with pytest.raises(ImportError, match=message):
        read_table(path)


def test_the_module_imports_nothing_heavy():
    heavy = {"pandas", "pyarrow", "torch", "sklearn"}
    code = f"import sys, unimodal.datasets.files; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr
