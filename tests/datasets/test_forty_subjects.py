"""The same forty subjects in all layouts: equal graphs, labels and subjects, or the documented refusal."""

import numpy as np
import pytest

from isocapsnet._validation import InputError
from isocapsnet.datasets.graphs import BrainGraphs
from isocapsnet.datasets.identifiers import match_subjects
from isocapsnet.datasets.readers import load_graphs

from . import layouts, writers

FORTY = layouts.make_forty()


def in_folder(options, root):
    """Options whose paths are in a folder."""
    names = ("participants", "regions", "subjects")
    return {k: root / v if k in names and isinstance(v, str) and "." in v else v for k, v in options.items()}


def assert_equal(read: BrainGraphs, has_sites: bool, has_age: bool) -> None:
    # Without a table, a subject is called as its file is.
    names = {one: name for name, one in match_subjects(read.subjects.tolist(), FORTY.subjects.tolist(), {}).items()}
    assert len(read) == len(names) == 40
    read = read[[names[subject] for subject in FORTY.subjects.tolist()]]
    np.testing.assert_allclose(read.adjacency, FORTY.adjacency, atol=1e-12)
    assert writers.label_values(read) == writers.label_values(FORTY)
    if has_sites:
        assert read.sites.tolist() == FORTY.sites.tolist()
    if has_age:
        np.testing.assert_allclose(read.covariates["age"], FORTY.covariates["age"])


@pytest.mark.parametrize("name", layouts.LAYOUTS)
def test_every_layout_gives_the_same_forty_subjects_or_its_refusal(tmp_path, name):
    layout = layouts.LAYOUTS[name]
    source, options = layout.write(FORTY, tmp_path), in_folder(layout.options, tmp_path)
    if layout.refusal:
        with pytest.raises(InputError, match=layout.refusal):
            load_graphs(source, **options)
        if not layout.remedy:
            return
    read = load_graphs(source, **options, **in_folder(layout.remedy, tmp_path))
    assert_equal(read, "site" in options, "covariates" in options)
    assert not read.exclusions


@pytest.mark.parametrize("name", layouts.OBJECTS)
def test_objects_in_memory_give_the_same_forty_subjects(tmp_path, name):
    layout = layouts.OBJECTS[name]
    given = {"ids of the test": FORTY.subjects.tolist(), "frame of the test": layouts.phenotypes(FORTY)}
    options = {k: given.get(v, v) if isinstance(v, str) else v for k, v in layout.options.items()}
    assert_equal(load_graphs(layout.write(FORTY, tmp_path), **options), "site" in options, "covariates" in options)
