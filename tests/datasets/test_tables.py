"""Participants tables: every label belongs to its subject, or the table is refused by line."""

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.datasets.findings import Findings
from isocapsnet.datasets.formats.participants import Participants
from isocapsnet.datasets.formats.text import read_table
from isocapsnet.datasets.readers import examine_graphs, load_graphs
from isocapsnet.datasets.reading import ReadOptions

IDS = [f"sub-{i:02}" for i in range(1, 7)]
LABELS = ["hc", "ad", "hc", "ad", "ad", "hc"]


def write_study(folder, table, name="participants.tsv", ids=IDS):
    folder.mkdir(parents=True, exist_ok=True)
    for place, subject in enumerate(ids):
        np.save(folder / f"{subject}.npy", np.full((4, 4), place + 1.0))
    (folder / name).write_bytes(table if isinstance(table, bytes) else table.encode())
    return folder


def labels_of(folder, target="dx"):
    """Each subject's label, told by its graph."""
    data = load_graphs(folder, target=target)
    named = [None if code < 0 else data.label_names[code] for code in data.labels]
    return [label for _, label in sorted(zip(data.adjacency[:, 0, 0].tolist(), named, strict=True))]


def rows(separator="\t", columns=("participant_id", "dx", "notes")):
    return [
        separator.join(columns),
        *(separator.join([s, label, "fine"]) for s, label in zip(IDS, LABELS, strict=True)),
    ]


# -- quotes and fields ------------------------------------------------------------------------------------------


def test_a_quote_in_a_tsv_is_a_character(tmp_path):
    table = rows()
    table[2] = table[2].replace("fine", '"fell asleep')
    table[4] = table[4].replace("fine", 'moved"')
    assert labels_of(write_study(tmp_path, "\n".join(table))) == LABELS


def test_a_field_more_than_the_header_is_refused_by_line(tmp_path):
    for line in range(1, 7):
        table = rows()
        table[line] += "\textra"
        with pytest.raises(InputError, match=rf"participants.tsv has 4 fields in line {line + 1} but 3"):
            load_graphs(write_study(tmp_path, "\n".join(table)), target="dx")


def test_one_more_field_in_every_row_is_no_index(tmp_path):
    header, *body = rows()
    table = [header, *(f"NYU\t{row}" for row in body)]
    with pytest.raises(InputError, match="4 fields in line 2 but 3"):
        load_graphs(write_study(tmp_path, "\n".join(table)), target="dx")


def test_a_field_less_than_the_header_is_refused_by_line(tmp_path):
    table = rows(",")
    table[3] = table[3].removesuffix(",fine")
    with pytest.raises(InputError, match="2 fields in line 4 but 3"):
        load_graphs(write_study(tmp_path, "\n".join(table), "participants.csv"), target="dx")


def test_quotes_of_a_csv_hide_delimiters_and_quotes(tmp_path):
    table = rows(",")
    table[2] = table[2].replace("fine", '"said ""no"", left, came back"')
    table[3] = table[3].replace("fine", '"two\nlines"')
    assert labels_of(write_study(tmp_path, "\n".join(table), "participants.csv")) == LABELS


@pytest.mark.parametrize(
    ("opened", "closed", "line"),
    [(2, None, 3), (2, 4, 3), (2, 3, 3), (6, None, 7)],
    ids=["never closed", "closed two rows later", "closed in the next row", "in the last row"],
)
def test_a_csv_quote_that_swallows_rows_is_refused_by_line(tmp_path, opened, closed, line):
    table = rows(",")
    table[opened] = table[opened].replace("fine", '"fell')
    if closed is not None:
        table[closed] += '"'
    with pytest.raises(InputError, match=f"line {line}"):
        load_graphs(write_study(tmp_path, "\n".join(table), "participants.csv"), target="dx")


def test_quoted_values_of_a_tsv_are_refused_where_they_are_used(tmp_path):
    table = "\n".join(rows()).replace("ad", '"ad"')
    with pytest.raises(InputError, match=r"'dx', line 3"):
        load_graphs(write_study(tmp_path / "a", table), target="dx")
    table = "\n".join(rows()).replace("sub-03", '"sub-03"')
    with pytest.raises(InputError, match=r"'participant_id', line 4"):
        load_graphs(write_study(tmp_path / "b", table), target="dx")
    with pytest.raises(InputError, match='column called "dx"'):
        load_graphs(write_study(tmp_path / "c", "\n".join(rows()).replace("dx", '"dx"')), target="dx")


def test_columns_of_one_name_are_refused(tmp_path):
    table = rows(columns=("participant_id", "dx", " dx "))
    with pytest.raises(InputError, match="two columns called 'dx'"):
        load_graphs(write_study(tmp_path, "\n".join(table)), target="dx")


def test_columns_without_a_name_are_called_by_their_position(tmp_path):
    (tmp_path / "t.csv").write_text(",id,\n0,a,\n1,b,\n")
    table = read_table(tmp_path / "t.csv")
    assert table.columns == {"column 1": ("0", "1"), "id": ("a", "b"), "column 3": ("", "")}


# -- lines, encodings, delimiters -------------------------------------------------------------------------------

PLAIN = "\n".join(rows()) + "\n"
WRITINGS = {
    "byte-order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "CRLF": PLAIN.replace("\n", "\r\n").encode(),
    "CR": PLAIN.replace("\n", "\r").encode(),
    "UTF-16": PLAIN.encode("utf-16"),
    "UTF-16 big-endian": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "Windows-1252": PLAIN.replace("fine", "Müller’s").encode("cp1252"),
    "other line separators inside cells": PLAIN.replace("fine", "a\u2028b\u0085c").encode(),
    "no final newline": PLAIN.rstrip("\n").encode(),
    "blank lines": ("\n\n" + PLAIN.replace("\n", "\n\n") + "\n \n").encode(),
    "empty rows": (PLAIN + "\t\t\n").encode(),
    "commas": "\n".join(rows(",")).encode(),
    "semicolons": "\n".join(rows(";")).encode(),
    "semicolons and decimal commas": "\n".join(rows(";")).replace("fine", "1,5").encode(),
    "blanks": "\n".join(rows("  ")).encode(),
    "blanks around cells": "\n".join(rows(" \t ")).encode(),
    "trailing delimiters": "\n".join(row + "\t" for row in rows()).encode(),
}


@pytest.mark.parametrize("writing", WRITINGS)
def test_labels_do_not_depend_on_how_the_table_is_written(tmp_path, writing):
    assert labels_of(write_study(tmp_path, WRITINGS[writing])) == LABELS


@pytest.mark.parametrize(
    ("content", "fact"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (PLAIN.replace("fine", "a\x00b").encode(), "line 2"),
        (PLAIN.encode("utf-16-le"), "not a text file"),
        (PLAIN.encode() + b"\x81\x8d", "not a text file"),
        (PLAIN.replace("fine", "\x1b[31m").encode(), "line 2"),
        ("\n".join([rows(",")[0], *rows(";")[1:]]).encode(), "participants.tsv"),
        (b"participant_id,age\nsub-01;23,5\nsub-02;24,5\n", "every other line"),
    ],
    ids=["empty", "blank", "NUL", "UTF-16 without mark", "no text", "escape", "other delimiter", "hidden delimiter"],
)
def test_what_is_no_table_is_refused(tmp_path, content, fact):
    with pytest.raises(InputError, match=fact):
        load_graphs(write_study(tmp_path, content))


def test_missing_labels_are_missing_and_other_words_for_it_on_record(tmp_path):
    table = rows()
    table[1] = table[1].replace("hc", "n/a")
    table[6] = table[6].replace("hc", "None")
    folder = write_study(tmp_path, "\n".join(table))
    assert labels_of(folder) == [None, "ad", "hc", "ad", "ad", None]
    assert load_graphs(folder, target="dx").handled["'None' in column 'dx' taken for a missing label"] == (
        "1 subjects",
    )


def test_covariates_with_decimal_commas_are_numbers(tmp_path):
    ages = ["21,5", "33,125", "n/a", "40", "51,25", "19,5"]
    table = ["participant_id;dx;age", *(f"{s};{d};{a}" for s, d, a in zip(IDS, LABELS, ages, strict=True))]
    data = load_graphs(write_study(tmp_path, "\n".join(table)), target="dx", covariates=["age"])
    np.testing.assert_array_equal(data.covariates["age"], [21.5, 33.125, np.nan, 40, 51.25, 19.5])
    table = [row.replace("21,5", "1,500").replace(",125", ",000").replace("51,25", "5,125") for row in table]
    with pytest.raises(InputError, match=r"age.*thousands"):
        load_graphs(write_study(tmp_path, "\n".join(row.replace("19,5", "2") for row in table)), covariates=["age"])


def test_several_tables_are_refused_unless_one_is_chosen(tmp_path):
    other = "\n".join(rows()).replace("hc", "xx").replace("ad", "hc").replace("xx", "ad")
    folder = write_study(tmp_path, "\n".join(rows()))
    (folder / "metadata.tsv").write_text(other)
    assert labels_of(folder) == LABELS
    (folder / "participants.csv").write_text(other.replace("\t", ","))
    with pytest.raises(InputError, match=r"participants\.csv, participants\.tsv.*participants="):
        load_graphs(folder, target="dx")
    data = load_graphs(folder, target="dx", participants=folder / "metadata.tsv")
    assert [data.label_names[code] for code in data.labels] == [{"hc": "ad", "ad": "hc"}[label] for label in LABELS]


# -- who is who -------------------------------------------------------------------------------------------------


def find_rows(tmp_path, header, ids, files, more=None):
    """The row of each file; ``None`` for a file that nobody has."""
    cells = [[one, *others] for one, *others in zip(ids, *(more or {}).values(), strict=True)]
    (tmp_path / "participants.tsv").write_text(
        "\n".join("\t".join(map(str, row)) for row in [[header, *(more or {})], *cells])
    )
    participants = Participants(tmp_path / "participants.tsv", files)
    participants.merge_rows([header], findings := Findings())
    assert not findings.errors
    return [participants.find(name) for name in files]


@pytest.mark.parametrize(
    ("ids", "files"),
    [
        (["1", "2", "10"], ["sub-01", "sub-02", "sub-10"]),
        (["sub-0050952", "sub-0050953"], ["NYU_50952_rois_aal", "UM_1_50953_rois_aal"]),
        (["50952.0", "50953.0"], ["50952", "50953"]),
        (["50952,0", "50953,00"], ["50952", "50953"]),
        (["1.0", "1.1", "1.10"], ["1.0", "1.1", "1.10"]),
        (["50030", "50031"], ["sub-control50030_conn", "sub-patient50031_conn"]),
        (["Müller1", "Mueller1"], ["Mu\u0308ller1", "mueller1"]),
        (["1e5", "2e5"], ["1e5", "2e5"]),
        (["A1", "A1B"], ["A1", "A1B"]),
        (["1", "12"], ["1_atlas12", "12_atlas12"]),
    ],
)
def test_a_file_has_the_row_of_its_subject(tmp_path, ids, files):
    assert find_rows(tmp_path, "participant_id", ids, files) == list(range(len(ids)))


@pytest.mark.parametrize(
    ("ids", "files"),
    [
        (["1", "2"], ["sub-1a", "sub-2"]),
        (["1", "2"], ["1b", "2"]),
        (["müller1", "b"], ["möller1", "b"]),
        (["1.1", "2.0"], ["1.0", "2.0"]),
    ],
)
def test_a_file_of_somebody_else_has_no_row(tmp_path, ids, files):
    assert find_rows(tmp_path, "participant_id", ids, files) == [None, 1]


@pytest.mark.parametrize(
    ("ids", "files"),
    [
        (["1", "50031"], ["50030_ses_1", "50031_ses_2"]),
        (["1", "2"], ["50030_ses_1"]),
        (["a1", "1", "2"], ["a1", "b2"]),
        (["5.0952e4", "5.0953e4"], ["50952", "50953", "5.0952e4"]),
        (["5.09E+04", "x"], ["50900", "x"]),
    ],
    ids=["session", "session of a single file", "letters", "exponent", "rounded"],
)
def test_names_that_may_be_somebody_elses_are_refused(tmp_path, ids, files):
    with pytest.raises(InputError):
        find_rows(tmp_path, "participant_id", ids, files)


@pytest.mark.parametrize("ids", [["sub-1", "sub-01"], ["1", "001"], ["sub-1", "1"], ["A-1", "a1"]])
def test_two_writings_of_one_identifier_are_refused(tmp_path, ids):
    folder = write_study(tmp_path, f"participant_id\tdx\n{ids[0]}\thc\n{ids[1]}\tad\nx9\tad", ids=["sub-1", "x9"])
    _, findings = examine_graphs(folder, ReadOptions(target="dx"))
    assert any("lines 2, 3" in sentence for sentence in findings.errors)


def test_columns_that_name_other_rows_are_refused(tmp_path):
    files = [str(20 + i) for i in range(4)]
    with pytest.raises(InputError, match=r"'code' and 'sub'.*participant_id"):
        find_rows(tmp_path, "code", files, files, {"sub": [21, 22, 23, 20]})
    assert find_rows(tmp_path, "participant_id", files, files, {"sub": [21, 22, 23, 20]}) == [0, 1, 2, 3]


def test_numbers_that_coincide_with_file_names_are_no_identifiers(tmp_path):
    files = [str(20 + i) for i in range(4)]
    for title in ("participant_id", "SUB_ID", "Subject", "code"):
        assert find_rows(tmp_path, title, files[::-1], files, {"age": files, "rank": files}) == [3, 2, 1, 0]
    assert find_rows(tmp_path, "nr", files[::-1], files, {"age": files, "rank": files}) == [3, 2, 1, 0]
    for ids in (["5.2E+01"] * 4, ["x1", "x2", "x3", "x4"], ["", "", "", ""]):
        with pytest.raises(InputError, match="participant_id"):
            find_rows(tmp_path, "participant_id", ids, files, {"age": files})


def test_row_numbers_are_no_identifiers(tmp_path):
    """As pandas writes its index: a first column without a name that counts."""
    body = [f"{row},{3 - row},{dx}" for row, dx in enumerate(["a", "b", "c", "d"])]
    (tmp_path / "participants.csv").write_text("\n".join([",subject,dx", *body]))
    participants = Participants(tmp_path / "participants.csv", ["0", "1", "2", "3"])
    assert participants.id_column == "subject"
    assert [participants.find(name) for name in "0123"] == [3, 2, 1, 0]


def test_a_large_table_gives_few_sentences(tmp_path):
    table = "\n".join(["participant_id\tdx\tage", *(f"s{i}\t{i % 2}\t{i % 70}" for i in range(30_000))])
    folder = write_study(tmp_path, table + "\ns1\t0\t1", ids=["s1", "s2"])
    _, findings = examine_graphs(folder, ReadOptions(target="dx"))
    assert len(findings.errors) == 1
    assert "lines 3, 30002" in findings.errors[0]
    assert len(findings.exclusions) == 29_998
