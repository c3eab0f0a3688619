"""Training steps that are recorded on a GPU give the same bits as steps that are launched one kernel at a time."""

import pytest
import torch

from isocapsnet import MODELS, make_planted_graphs
from isocapsnet.models import _motif_form
from isocapsnet.models._device import available_bytes
from isocapsnet.models._recording import cached_bytes, free_for_recordings, recording_stream

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

RECORDED = [
    ("isocapsnet", {"windows": "contiguous"}),
    ("isocapsnet", {"windows": "neighborhood"}),
    ("isocapsnet", {"windows": "diagonal"}),
    *(
        (name, {})
        for name in ("capsnet", "cnn", "isonn", "sdbn", "autoencoder", "gin", "diffpool", "brainnetcnn", "bnt")
    ),
]


def test_the_list_is_complete():
    recorded = {name for name, method in MODELS.items() if getattr(method, "_records_steps", False)}
    assert recorded == {name for name, _ in RECORDED} | {"fastisonn"}  # its batches are more than a tensor


def fit(name, parameters, monkeypatch, *, record):
    method, planted = MODELS[name], make_planted_graphs(n_graphs=60, n_nodes=20, random_state=0)
    for cls in (method, _motif_form.MotifForm):
        monkeypatch.setattr(cls, "_records_steps", record)
    model = method(max_epochs=5, batch_size=16, validation_fraction=0.2, device="cuda", random_state=0, **parameters)
    return model.fit(planted.graphs, planted.labels)


@needs_gpu
@pytest.mark.parametrize(("name", "parameters"), RECORDED)
def test_recorded_steps_give_the_same_bits(name, parameters, monkeypatch):
    recorded = fit(name, parameters, monkeypatch, record=True)
    plain = fit(name, parameters, monkeypatch, record=False)
    assert recorded.history_[-1]["valid_loss"] == plain.history_[-1]["valid_loss"]
    assert [row["train_loss"] for row in recorded.history_] == [row["train_loss"] for row in plain.history_]
    for (key, weights), others in zip(
        recorded.module_.state_dict().items(), plain.module_.state_dict().values(), strict=True
    ):
        assert torch.equal(weights, others), key


@needs_gpu
def test_memory_of_recordings_is_used_again(monkeypatch):
    sizes = []
    for _ in range(12):
        fit("isocapsnet", {"windows": "contiguous"}, monkeypatch, record=True)
        sizes.append(torch.cuda.memory_reserved())
    assert sizes[-1] < 1.02 * sizes[-4], sizes


@needs_gpu
def test_what_recordings_leave_is_free_for_recordings_alone(monkeypatch):
    device = torch.device("cuda")
    fit("isocapsnet", {"windows": "contiguous"}, monkeypatch, record=True)
    left, reserved = free_for_recordings(device), torch.cuda.memory_reserved(device)
    assert left > 0
    unused = reserved - torch.cuda.memory_allocated(device)
    assert cached_bytes(device) + left <= unused
    torch.cuda.empty_cache()
    assert available_bytes(device) <= torch.cuda.mem_get_info(device)[0] + unused - left


@needs_gpu
def test_callbacks_get_the_output_of_the_batch(monkeypatch):
    class Collect:
        def __init__(self):
            self.sums = []

        def on_batch_end(self, output, codes):
            self.sums.append(float(output.capsules.sum()))

        def on_epoch_end(self, history):
            return False

    sums = []
    for record in (True, False):
        callback = Collect()
        planted = make_planted_graphs(n_graphs=60, n_nodes=20, random_state=0)
        monkeypatch.setattr(MODELS["isocapsnet"], "_records_steps", record)
        MODELS["isocapsnet"](
            windows="contiguous", max_epochs=4, device="cuda", random_state=0, calibrate=False, callbacks=[callback]
        ).fit(planted.graphs, planted.labels)
        sums.append(callback.sums)
    assert sums[0] == sums[1] and len(set(sums[0])) > 1


def test_nothing_changes_on_a_cpu():
    with recording_stream(torch.device("cpu")):
        assert torch.ones(2).sum() == 2
