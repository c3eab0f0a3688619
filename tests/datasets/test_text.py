"""Text matrices are read whatever wrote them; a damaged one is refused with a sentence that names it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.matrices import parse_matrix
from isocapsnet.datasets.formats.text import read_grid

MATRIX = np.array([[1.0, 0.25, -0.5], [0.25, 1.0, 0.125], [-0.5, 0.125, 1.0]])
NAMES = ["Left A", "Right B", "C"]


def rows(separator=",", matrix=MATRIX, decimal="."):
    return [separator.join(f"{value}".replace(".", decimal) for value in row) for row in matrix]


DIALECTS = {
    "commas": rows(","),
    "commas and blanks": rows(", "),
    "tabs": rows("\t"),
    "semicolons": rows(";"),
    "decimal commas": rows(";", decimal=","),
    "decimal commas and tabs": rows("\t", decimal=","),
    "blanks": rows("   "),
    "leading blanks": ["   " + row for row in rows("  ")],
    "trailing delimiter": [row + "," for row in rows(",")],
    "comments": ["# exported by a tool", *rows(",")],
    "blank lines": ["", *rows(","), "", ""],
    "header": [",".join(NAMES), *rows(",")],
    "pandas": pd.DataFrame(MATRIX).to_csv().splitlines(),
    "pandas without index": pd.DataFrame(MATRIX).to_csv(index=False).splitlines(),
    "pandas named": pd.DataFrame(MATRIX, index=NAMES, columns=NAMES).to_csv().splitlines(),
    "index title": pd.DataFrame(MATRIX, index=pd.Index(NAMES, name="Node"), columns=NAMES).to_csv().splitlines(),
    "numbered rows": [f"{i + 1},{row}" for i, row in enumerate(rows(","))],
    "R": ['"Left A" "Right B" "C"', *(f'"{n}" {row}' for n, row in zip(NAMES, rows(" "), strict=True))],
    "R with commas": ['"Left A","Right B","C"', *(f'"{n}",{row}' for n, row in zip(NAMES, rows(","), strict=True))],
    "region codes": ["2001,2002,2111", *rows(",")],
    "region codes with index": ["2001,2002,2111", *(f"{n},{row}" for n, row in zip(NAMES, rows(","), strict=True))],
    "quoted names with delimiters": ['"a,b","c,d",e', *rows(",")],
    "matlab scientific": [" ".join(f"{value: .7e}" for value in row) for row in MATRIX],
    "windows line ends": [row + "\r" for row in rows(",")],
}


def read_text_matrix(path):
    matrix = parse_matrix(read_grid(path))
    return matrix.values, matrix.names


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_gives_the_same_matrix(tmp_path, dialect):
    path = tmp_path / "sub-01.csv"
    path.write_bytes("\n".join(DIALECTS[dialect]).encode())
    values, names = read_text_matrix(path)
    assert np.array_equal(values, MATRIX)
    if dialect in ("header", "pandas named", "index title", "R", "R with commas"):
        assert names == NAMES


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_encodings(tmp_path, encoding):
    path = tmp_path / "sub-01.csv"
    path.write_bytes("\n".join(["Gehörgang,b,c", *rows(",")]).encode(encoding))
    values, names = read_text_matrix(path)
    assert np.array_equal(values, MATRIX)
    assert names == ["Gehörgang", "b", "c"]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(2, 8),
    st.sampled_from([",", "\t", ";", " "]),
    st.booleans(),
    st.booleans(),
    st.integers(0, 999),
)
def test_values_come_back_exactly(tmp_path_factory, n_columns, n_rows, separator, has_header, has_index, seed):
    matrix = np.random.default_rng(seed).normal(size=(n_rows, n_columns))
    frame = pd.DataFrame(matrix, index=[f"n{i}" for i in range(n_rows)], columns=[f"c{i}" for i in range(n_columns)])
    path = tmp_path_factory.mktemp("text") / "m.txt"
    frame.to_csv(path, sep=separator, header=has_header, index=has_index)
    values, names = read_text_matrix(path)
    assert np.array_equal(values, matrix)
    row_names = list(frame.index) if has_index and n_rows == n_columns else None
    assert names == (list(frame.columns) if has_header else row_names)


def test_no_digit_is_lost(tmp_path):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(50, 50)) * 10.0 ** rng.integers(-12, 12, size=(50, 50))
    (tmp_path / "m.csv").write_text("\n".join(",".join(map(repr, row)) for row in matrix.tolist()))
    assert np.array_equal(read_text_matrix(tmp_path / "m.csv")[0], matrix)


def test_missing_values_are_kept_for_the_reader_to_judge(tmp_path):
    path = tmp_path / "sub-01.tsv"
    path.write_text("1\tn/a\t0.5\nNaN\t1\t\n0.5\tNA\t1\n")
    values, _ = read_text_matrix(path)
    assert np.isnan(values).tolist() == [[False, True, False], [True, False, True], [False, True, False]]


def test_an_empty_diagonal_is_no_header(tmp_path):
    path = tmp_path / "sub-01.csv"
    path.write_text(",0.3,0.2\n0.3,,0.1\n0.2,0.1,\n")
    values, names = read_text_matrix(path)
    assert names is None
    assert values.shape == (3, 3)
    assert np.isnan(np.diag(values)).all()


def test_a_header_that_lacks_the_index_column(tmp_path):
    path = tmp_path / "series.txt"
    path.write_text("2001 2002\nt1 1.5 2.5\nt2 3.5 4.5\nt3 5.5 6.5\nt4 7.5 8.5\n")
    values, names = read_text_matrix(path)
    assert values.tolist() == [[1.5, 2.5], [3.5, 4.5], [5.5, 6.5], [7.5, 8.5]]
    assert names == ["2001", "2002"]


def test_leading_columns_of_text_are_no_numbers(tmp_path):
    path = tmp_path / "tc.1D"
    path.write_text("File\tSub-brick\tMean_1\tMean_2\nrun.nii\t0[?]\t1.5\t2.5\nrun.nii\t1[?]\t3.5\t4.5\n")
    values, names = read_text_matrix(path)
    assert values.tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert names == ["Mean_1", "Mean_2"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "bad.csv is empty"),
        ("a,b,c\n", "a header but no numbers"),
        ("1,3,2\n4,5\n7,8,9\n", "3 values .* but 2 in line 2"),
        ("1,3,2\n4,oops,6\n7,8,9\n", "'oops'.*line 2, column 2"),
        ("oops,2\n3,4\nx,5\n", "'x'.*line 3, column 1"),
    ],
)
def test_damaged_text_is_refused_by_name(tmp_path, text, sentence):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as refusal:
        read_text_matrix(path)
    assert "bad.csv" in str(refusal.value)


HOPS = [[abs(i - j) for j in range(5)] for i in range(5)]


def read(tmp_path, text):
    path = tmp_path / "m.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_text_matrix(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("\n".join(",".join(map(str, row)) for row in HOPS), HOPS),
        ("0,1,2,3,4\n" + "\n".join(",".join(map(str, row)) for row in HOPS), HOPS),
        ("2001,2002,2003,2004,2005\n" + "\n".join(",".join(map(str, row)) for row in HOPS), HOPS),
        ("Node,2001,2002\nA,.5,.25\nB,.25,.5", [[0.5, 0.25], [0.25, 0.5]]),
        (",2001,2002\n2001,.5,.25\n2002,.25,.5", [[0.5, 0.25], [0.25, 0.5]]),
        (",1,2\n1,,3\n2,3,", [[np.nan, 1, 2], [1, np.nan, 3], [2, 3, np.nan]]),
        ("7,12,3\n0,1,5\n4,4,4", [[7, 12, 3], [0, 1, 5], [4, 4, 4]]),
        ("0,5;1,25\n2,125;3", [[0.5, 1.25], [2.125, 3]]),
        ("4 0,5 -0,25\n2 1,5 0,75", [[4, 0.5, -0.25], [2, 1.5, 0.75]]),
        ("0,123\t0,456\n1,000\t0,789", [[0.123, 0.456], [1, 0.789]]),
        ('"0,5","1,25"\n"2,125","3"', [[0.5, 1.25], [2.125, 3]]),
        ("time,a,b\n0.0,1,2\n0.5,3,4", [[1, 2], [3, 4]]),
        ("NA,CN\n1.5,2.5\n3.5,4.5", [[1.5, 2.5], [3.5, 4.5]]),
    ],
    ids=[
        "distances in steps", "numbers above them", "codes above them", "codes with a title", "codes with a corner",
        "empty diagonal", "whole numbers", "decimal commas", "decimal commas and blanks", "three decimals",
        "quoted decimal commas", "times", "a region called NA",
    ],
)  # fmt: skip
def test_rows_of_numbers_are_values_or_headers(tmp_path, text, expected):
    np.testing.assert_array_equal(read(tmp_path, text)[0], expected)


@pytest.mark.parametrize(
    "text",
    [
        "0,1,2\n.5,.25,.125\n.75,.5,.25",
        "1,.5,.25\n2,.125,.5\n3,.25,.75",
        "2001,2002\n7,9\n5,3",
        "1,234\t2,345\n3,456\t4,567",
        "1,5\t2.5\n3,5\t4,5",
        "1.234,5;2\n3,5;4",
        "0,05,1,25\n2,50,0,75",
        "a,b,c\n1,2,3,\n4,5,6,\n7,8,9,",
        "0,3\n3,4,5\n7,8,9",
        "x,0.5,1\n0.25,0.5,1\n0.5,1,2",
        "x,5e-1,1\n0.25,0.5,1\n0.5,1,2",
        ",A,B\nB,1,2\nA,3,4",
        "1;2\n3,4;5,6\n7.5;8",
        "1_000,2\n3,4_0",
        "٣,2\n3,4",
        "1,2\n3,0x1F",
        '1,2\n"3,4',
        "region,A,B\n1.5,2,3\n0.5,4,5",
        "A 0,5 0,25\nB 0,5 0,75",
        "1,2\n3,4\n\x1a",
    ],
    ids=[
        "counting header or row", "counting index or column", "codes or values", "thousands", "comma and point",
        "thousands with points", "decimal and other commas", "delimiter at the end of rows only", "short first row",
        "damaged first row", "damaged first row with exponents",
        "rows in another order", "two decimal signs", "underscores", "other digits", "hexadecimal",
        "open quote", "title above values", "names and decimal commas", "control character",
    ],
)  # fmt: skip
def test_what_has_two_readings_is_refused(tmp_path, text):
    with pytest.raises(InputError, match=r"m\.csv"):
        read(tmp_path, text)


def test_integer_series_under_codes(tmp_path):
    """A first row of whole numbers above whole numbers: values where they are like the others, else refused."""
    rng = np.random.default_rng(0)
    values = rng.integers(900, 1100, size=(30, 6))
    body = "\n".join(",".join(map(str, row)) for row in values.tolist())
    assert np.array_equal(read(tmp_path, body)[0], values)
    with pytest.raises(InputError, match=r"m\.csv"):
        read(tmp_path, "2001,2002,2003,2004,2005,2006\n" + body)
    assert np.array_equal(read(tmp_path, "a,b,c,d,e,f\n" + body)[0], values)


def test_decimal_commas_that_commas_cut_in_two_are_no_square_matrix(tmp_path):
    series = np.random.default_rng(0).normal(size=(12, 6)).round(3)
    text = "\n".join(",".join(f"{value:.3f}".replace(".", ",") for value in row) for row in series.tolist())
    with pytest.raises(InputError, match="decimal commas"):
        read(tmp_path, text)
