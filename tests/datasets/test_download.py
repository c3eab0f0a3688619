"""Downloads from a local server: checked, atomic, refused with a sentence when something is wrong."""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from click.testing import CliRunner

from isocapsnet._validation import InputError
from isocapsnet.cli import main
from isocapsnet.datasets import catalog
from isocapsnet.datasets.catalog import CATALOG, CatalogEntry, fetch_graphs
from isocapsnet.datasets.download import RemoteFile, download, recorded_checksum

from . import writers
from .test_layouts import abide_series

CONTENT = np.random.default_rng(0).bytes(300_000)
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Server:
    """Serves ``files``; ``break_after`` closes the connection early, once."""

    def __init__(self):
        self.files, self.redirects, self.requests, self.break_after = {}, {}, [], None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append(self.path)
                if self.path in outer.redirects:
                    self.send_response(302)
                    self.send_header("Location", outer.redirects[self.path])
                    self.end_headers()
                    return
                if self.path not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[self.path]
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                stop, outer.break_after = outer.break_after, None
                self.wfile.write(content[:stop])

            def log_message(self, *arguments):
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server():
    server = Server()
    server.files["/data"] = CONTENT
    yield server
    server.http.shutdown()
    server.http.server_close()


def files_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("kind", ["sha256", "md5", "git-blob"])
def test_a_file_is_downloaded_once_and_checked(tmp_path, server, kind):
    digest = {
        "sha256": hashlib.sha256(CONTENT),
        "md5": hashlib.md5(CONTENT),
        "git-blob": hashlib.sha1(f"blob {len(CONTENT)}\0".encode() + CONTENT),
    }[kind].hexdigest()
    file = RemoteFile(f"{server.url}/data", "file.bin", f"{kind}:{digest}")
    seen = []
    path = download(file, tmp_path, lambda name, done, total: seen.append((name, done, total)))
    assert path.read_bytes() == CONTENT
    assert seen[-1] == ("file.bin", len(CONTENT), len(CONTENT))
    download(file, tmp_path)
    assert len(server.requests) == 1
    path.write_bytes(b"damaged later")
    assert download(file, tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 2
    assert files_in(tmp_path) == ["file.bin"]


def test_wrong_checksum_is_refused_and_nothing_is_kept(tmp_path, server):
    file = RemoteFile(f"{server.url}/data", "file.bin", "sha256:" + "0" * 64)
    with pytest.raises(InputError, match="checksum sha256:0"):
        download(file, tmp_path)
    assert files_in(tmp_path) == []


@pytest.mark.parametrize("checksum", [SHA256, None])
def test_a_broken_download_leaves_nothing_and_starts_again(tmp_path, server, checksum):
    file = RemoteFile(f"{server.url}/data", "file.bin", checksum)
    server.break_after = 200_000
    with pytest.raises(InputError, match="connection broke"):
        download(file, tmp_path)
    assert files_in(tmp_path) == []
    assert download(file, tmp_path).read_bytes() == CONTENT


def test_a_missing_file_says_404(tmp_path, server):
    with pytest.raises(InputError, match=r"404.*may have moved"):
        download(RemoteFile(f"{server.url}/gone", "file.bin", SHA256), tmp_path)
    assert files_in(tmp_path) == []


def test_no_network_says_what_to_do(tmp_path, server):
    server.http.shutdown()
    server.http.server_close()
    with pytest.raises(InputError, match="check the network") as refusal:
        download(RemoteFile(f"{server.url}/data", "file.bin", SHA256), tmp_path)
    advised = str(tmp_path / "file.bin")
    assert advised in str(refusal.value)
    (tmp_path / "file.bin").write_bytes(CONTENT)
    assert download(RemoteFile(f"{server.url}/data", "file.bin", SHA256), tmp_path).read_bytes() == CONTENT


def test_unprotected_connections_are_refused(tmp_path, server):
    with pytest.raises(InputError, match="not https"):
        download(RemoteFile("http://example.org/data", "file.bin", SHA256), tmp_path)
    with pytest.raises(InputError, match="not https"):
        download(RemoteFile("ftp://example.org/data", "file.bin", SHA256), tmp_path)
    server.redirects["/moved"] = "http://example.org/data"
    with pytest.raises(InputError, match=r"http://example.org/data is not https"):
        download(RemoteFile(f"{server.url}/moved", "file.bin", SHA256), tmp_path)
    server.redirects |= {"/moved": "/data", "/loop": "/loop"}
    assert download(RemoteFile(f"{server.url}/moved", "file.bin", SHA256), tmp_path).read_bytes() == CONTENT
    with pytest.raises(InputError, match="TooManyRedirects"):
        download(RemoteFile(f"{server.url}/loop", "other.bin", SHA256), tmp_path)


def test_an_unknown_checksum_is_recorded_and_held_against_later_downloads(tmp_path, server):
    file = RemoteFile(f"{server.url}/data", "file.bin")
    assert recorded_checksum(file, tmp_path) is None
    download(file, tmp_path)
    assert recorded_checksum(file, tmp_path) == SHA256
    (tmp_path / "file.bin").unlink()
    server.files["/data"] = CONTENT[::-1]
    with pytest.raises(InputError, match="does not have the checksum"):
        download(file, tmp_path)


def test_catalog_entries_are_complete_declarations():
    for name, entry in CATALOG.items():
        assert entry.licence, name
        assert entry.citation, name
        assert entry.n_nodes > 1, name
        assert entry.make or entry.files or entry.how_to_obtain, name
        assert all(file.url.startswith("https://") for file in entry.files), name
    for name, counts in {
        "hiv-fmri": (50, 17),
        "hiv-dti": (56, 20),
        "bp-fmri": (52, 45),
        "adhd-fmri": (280, 488),
    }.items():
        assert (CATALOG[name].class_counts["1"], CATALOG[name].class_counts["-1"]) == counts
    for name in ("hiv-fmri", "hiv-dti", "bp-fmri"):
        assert [file.path for file in CATALOG[name].files] == ["fold_1", "fold_2", "fold_3"]
        assert len({file.checksum for file in CATALOG[name].files}) == 3
        assert all(re.fullmatch(r"git-blob:[0-9a-f]{40}", file.checksum) for file in CATALOG[name].files)


def test_folds_are_fetched_checked_and_described_by_the_command(tmp_path, server, study, monkeypatch):
    data = study.replace(subjects=None, labels=np.arange(12) % 2)
    folder = writers.write_folds(data, tmp_path / "source")
    files = []
    for number in (1, 2, 3):
        content = (folder / f"fold_{number}").read_bytes()
        server.files[f"/fold_{number}"] = content
        blob = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
        files.append(RemoteFile(f"{server.url}/fold_{number}", f"fold_{number}", f"git-blob:{blob}"))
    entry = CatalogEntry("toy", 6, "none", "nobody", {"-1": 6, "1": 6}, files=tuple(files))
    monkeypatch.setitem(CATALOG, "toy", entry)
    monkeypatch.setenv("ISOCAPSNET_CACHE", str(tmp_path / "cache"))
    result = CliRunner().invoke(main, ["data", "fetch", "toy"])
    assert result.exit_code == 0, result.output
    assert "-1: 6, 1: 6" in result.output
    fetched = fetch_graphs("toy")
    assert np.array_equal(fetched.adjacency, study.adjacency)
    assert fetched.name == "toy"
    assert len(server.requests) == 3
    monkeypatch.setitem(CATALOG, "toy", CatalogEntry("toy", 6, "none", "nobody", {"1": 5}, files=tuple(files)))
    with pytest.raises(InputError, match="should have the classes"):
        fetch_graphs("toy")


def test_abide_downloads_the_series_that_its_table_lists(tmp_path, server, monkeypatch):
    for path in abide_series(tmp_path).iterdir():
        place = "" if path.suffix == ".csv" else "/Outputs/cpac/filt_noglobal/rois_aal"
        server.files[f"{place}/{path.name}"] = path.read_bytes()
    table = "Phenotypic_V1_0b_preprocessed1.csv"
    monkeypatch.setattr(catalog, "_ABIDE", server.url)
    entry = CatalogEntry(
        "toy", 5, "none", "nobody", {"1": 4, "2": 4},
        files=(RemoteFile(f"{server.url}/{table}", table),),
        more_files=CATALOG["abide-pcp"].more_files,
        options={"target": "DX_GROUP", "site": "SITE_ID"},
    )  # fmt: skip
    monkeypatch.setitem(CATALOG, "toy", entry)
    data = fetch_graphs("toy", cache=tmp_path / "cache")
    assert len(data.time_series) == 8
    assert data.passport["sites"] == {"NYU": 4, "UM_1": 4}
    result = CliRunner().invoke(main, ["data", "fetch", "toy", "--cache", str(tmp_path / "cache")])
    assert f"{table} has no published checksum" in result.output and "sha256:" in result.output


def test_datasets_that_cannot_be_passed_on_say_how_to_obtain_them(monkeypatch):
    monkeypatch.delenv("ISOCAPSNET_DATA", raising=False)
    for name, fact in (
        ("adhd-200", 'target="DX"'),
        ("xu-abide", 'target="@subject"'),
        ("adhd-fmri", "ask the authors"),
    ):
        with pytest.raises(InputError, match=rf"{name}.*{fact}.*{name.replace('-', '_')}\.npz"):
            fetch_graphs(name)
    with pytest.raises(InputError, match="name='nothing' is unknown"):
        fetch_graphs("nothing")


@pytest.mark.parametrize("name", ["planted", "planted-orientation", "planted-motif", "planted-null"])
def test_planted_datasets_are_built_in_with_coordinates(name):
    data = fetch_graphs(name)
    assert data.adjacency.shape == (120, 28, 28)
    assert data.atlas.coordinates.shape == (28, 3)
    assert data.passport["classes"] == dict(CATALOG[name].class_counts)
    assert len(data.passport["sites"]) == 3
    assert data.digest() == fetch_graphs(name).digest()
