"""The child process that parses binary files: what goes wrong in it becomes one sentence, and the next file is read."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy.io import savemat

from isocapsnet._validation import InputError
from isocapsnet.datasets import isolation
from isocapsnet.datasets.formats.matlab import parse_mat
from isocapsnet.datasets.isolation import ReadLimit, parse
from tests.datasets import hostile_parsers


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "subject-7.mat"
    savemat(path, {"data": np.eye(4)})
    return path


def ask(name, path, limit=None):
    return parse(getattr(hostile_parsers, name), path, limit or ReadLimit(1 << 40))


@pytest.mark.parametrize(
    ("name", "fact"), [("crash", "SIGSEGV"), ("leave", "exit code 3"), ("fail", "KeyError"), ("spin", "busy")]
)
def test_a_parser_that_dies_is_a_sentence_about_the_file_and_the_next_file_is_read(name, fact, path, monkeypatch):
    monkeypatch.setattr(isolation, "_CPU_SECONDS", 0.1)
    with pytest.raises(InputError, match=rf"subject-7\.mat.*{fact}"):
        ask(name, path)
    assert np.array_equal(parse(parse_mat, path, ReadLimit())[0]["data"], np.eye(4))


@pytest.mark.skipif(sys.platform != "linux", reason="address space can be limited on Linux")
def test_a_parser_that_needs_too_much_memory_is_refused(path):
    with pytest.raises(InputError, match=r"subject-7\.mat needs more memory"):
        ask("allocate", path, ReadLimit(1 << 30))


def test_arrays_and_facts_cross_over_whatever_a_library_prints(path):
    arrays, facts = ask("chatter", path)
    assert arrays["values"].tolist() == [0, 1, 2]
    assert arrays["none"].shape == (0, 4)
    assert arrays["names"].tolist() == ["ä", "bc"]
    assert facts == {"fact": [1, "two"]}


def test_one_child_serves_all_files_and_is_replaced_when_killed(path):
    parse(parse_mat, path, ReadLimit())
    first = isolation._CURRENT[0]._process
    parse(parse_mat, path, ReadLimit())
    assert isolation._CURRENT[0]._process is first
    first.send_signal(signal.SIGKILL)
    first.wait()
    parse(parse_mat, path, ReadLimit())
    assert isolation._CURRENT[0]._process is not first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_child_of_its_own(path):
    parse(parse_mat, path, ReadLimit())
    before = isolation._CURRENT[0]._process.pid
    child = os.fork()
    if child == 0:
        parse(parse_mat, path, ReadLimit())
        is_other = isolation._CURRENT[0]._process.pid != before
        isolation.close_child()
        os._exit(0 if is_other else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert isolation._CURRENT[0]._process.poll() is None


def test_a_plain_script_without_a_main_guard_can_read_graphs(tmp_path):
    savemat(tmp_path / "study.mat", {"adjacency": np.ones((3, 3, 4)), "labels": [0, 1, 0, 1]})
    script = tmp_path / "script.py"
    script.write_text("from isocapsnet import load_graphs\nprint(len(load_graphs('study.mat')))\n")
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("4\n", "")


def test_the_limit_counts_all_that_was_read(path):
    limit = ReadLimit(600)
    parse(parse_mat, path, limit)
    with pytest.raises(
        InputError, match=r"subject-7\.mat.* needs 128 bytes.* 600 bytes .* 200 bytes .* 128 bytes are used"
    ):
        parse(parse_mat, path, limit)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "x.mat").mkdir()
    with pytest.raises(InputError, match=r"x\.mat is not a file"):
        parse(parse_mat, tmp_path / "x.mat", ReadLimit())
