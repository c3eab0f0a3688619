"""The explanations of a results folder, as the report needs them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from isocapsnet._validation import InputError
from isocapsnet.explain.artifacts import EXPLANATION_FILE, read_explanation
from isocapsnet.explain.combine import combine
from isocapsnet.explain.explanation import Explanation
from isocapsnet.report.content import Attribution, Method, Reconstructions, Representation


def add_explanations(
    method: Method, folder: Path, records: Mapping[str, Any], subjects: Sequence[str], notes: list[str]
) -> Method:
    """The method with what its fits' ``explanation.npz`` show; a note for those that cannot be used.

    ``records`` are the folder's by key, ``subjects`` names everybody in the data (empty: numbers are used).
    """
    found: list[Explanation] = []
    who: list[list[int]] = []
    for fold in method.row["folds"]:
        artifacts, record = folder / "artifacts" / fold["key"], records[fold["key"]]
        if (artifacts / EXPLANATION_FILE).exists():
            try:
                explanation = read_explanation(artifacts)
            except InputError as error:
                notes.append(f"{method.label}: {error}")
                continue
            if len(explanation.classes) < len(record["classes"]):
                notes.append(f"{method.label}: a fit that did not see every class in training is not explained.")
                continue
            if not _is_of_record(explanation, record) or (found and explanation.n_nodes != found[0].n_nodes):
                notes.append(f"{method.label}: {artifacts / EXPLANATION_FILE} explains other graphs than its record.")
                continue
            found.append(explanation)
            who.append(record["test"])
    if not found:
        return method
    first = found[0]
    return replace(
        method,
        cards=[card.to_json() for card in combine(found, who)],
        attribution=Attribution(
            edges=np.mean([explanation.edges for explanation in found], axis=0),
            randomization=float(np.mean([explanation.randomization for explanation in found])),
            n_fits=len(found),
        ),
        representation=None if first.representation is None else Representation(first.representation, first.codes),
        reconstructions=collect_reconstructions(method.label, found, who, subjects),
    )


def _is_of_record(explanation: Explanation, record: Mapping[str, Any]) -> bool:
    """Whether an explanation is about test graphs of the record, with their classes."""
    labels, positions = np.asarray(record["labels"]), explanation.positions
    fits = len(explanation.classes) == len(record["classes"]) and positions.max() < len(labels)
    return bool(fits and np.array_equal(labels[positions], explanation.codes))


def collect_reconstructions(
    label: str, found: Sequence[Explanation], who: Sequence[Sequence[int]], subjects: Sequence[str]
) -> Reconstructions | None:
    """Each subject once, as the first fit that did not train on it draws it; None without a decoder.

    ``who`` says which subjects the graphs of each explanation were.
    """
    seen: dict[int, tuple[int, Any, Any]] = {}
    for explanation, indices in zip(found, who, strict=True):
        if explanation.example_reconstructions is not None:
            for place, example in enumerate(explanation.examples):
                index = indices[explanation.positions[example]]
                drawn = explanation.example_reconstructions[place]
                seen.setdefault(index, (int(explanation.codes[example]), explanation.example_graphs[place], drawn))
    if not seen:
        return None
    labels, inputs, outputs = zip(*seen.values(), strict=True)
    return Reconstructions(
        method=label,
        subjects=[str(subjects[index]) if len(subjects) else f"subject {index + 1}" for index in seen],
        labels=np.array(labels, dtype=np.int64),
        inputs=np.stack(inputs),
        outputs=np.stack(outputs),
        n_available=len({index for indices in who for index in indices}),
    )
