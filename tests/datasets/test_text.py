"""Text matrices are read whatever wrote them; a damaged one is refused with a sentence that names it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isocapsnet._validation import InputError
from isocapsnet.datasets.formats.matrices import read_text_matrix

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
        ("1,3,2\n4,5\n7,8,9\n", "3 values in its first row of numbers but 2 in line 2"),
        ("1,3,2\n4,oops,6\n7,8,9\n", "the text 'oops' where a number should be"),
        ("oops,2\n3,4\nx,5\n", "the text 'x' where a number should be"),
    ],
)
def test_damaged_text_is_refused_by_name(tmp_path, text, sentence):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as refusal:
        read_text_matrix(path)
    assert "bad.csv" in str(refusal.value)
