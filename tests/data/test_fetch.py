"""Fetching from a server on this machine: the right bytes, or an error and nothing left behind."""

import hashlib
import http.server
import io
import os
import threading
import zipfile

import pytest

from regard.data import fetch
from regard.data.fetch import Remote, cache, located, member
from regard.errors import BadData, NoSpace, RegardError

CONTENT = os.urandom(300_001)
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path == "/missing":
            self.send_error(404)
            return
        self.send_response(200)
        body = CONTENT[:1000] if self.path == "/short" else CONTENT + b"x" * (self.path == "/longer")
        self.send_header("Content-Length", str(len(CONTENT) if self.path == "/short" else len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        server.url = f"http://127.0.0.1:{server.server_port}"
        yield server
        server.shutdown()
        thread.join()


def remote(home, path="/file", size=300_001, digest=DIGEST):
    return Remote("set/file.gz", home.url + path, size, digest)


def left():
    return sorted(str(f.relative_to(cache())) for f in cache().rglob("*") if f.is_file())


def test_a_file_is_fetched_once(home):
    said = []
    path = located(remote(home), "CC0", said.append)
    assert path.read_bytes() == CONTENT
    assert left() == ["set/file.gz"]
    assert said[0] == f"set/file.gz: 0.3 MB from {home.url}/file. Licence: CC0"
    assert said[-1] == "set/file.gz: 0.3 of 0.3 MB"
    assert located(remote(home), "CC0", said.append) == path
    assert home.asked == ["/file"]


def test_the_data_folder_comes_first(home, tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "set").mkdir(parents=True)
    (tmp_path / "data" / "set" / "file.gz").write_bytes(CONTENT)
    assert located(remote(home), "CC0").parent == tmp_path / "data" / "set"
    assert home.asked == []
    (tmp_path / "data" / "set" / "file.gz").write_bytes(b"other")
    with pytest.raises(BadData, match=f"its SHA-256 is .*, expected {DIGEST}; take it away to fetch it again"):
        located(remote(home), "CC0")


@pytest.mark.parametrize("path", ["/file", "/longer"])
def test_other_bytes_are_refused(home, path):
    expected = hashlib.sha256(b"what was published").hexdigest()
    with pytest.raises(BadData, match=f"SHA-256 is .*, expected {expected}: its home may have a newer version"):
        located(remote(home, path, digest=expected), "CC0", lambda _: None)
    assert left() == []


def test_no_more_is_read_than_there_should_be(home, monkeypatch):
    said = []
    with pytest.raises(BadData, match="its SHA-256 is"):
        located(remote(home, size=1000), "CC0", said.append)
    assert len(said) <= 5
    assert left() == []


@pytest.mark.parametrize(("path", "text"), [("/missing", "Not Found"), ("/short", "its SHA-256 is")])
def test_what_cannot_be_fetched(home, path, text):
    with pytest.raises(RegardError, match=text):
        located(remote(home, path), "CC0", lambda _: None)
    assert left() == []


def test_nobody_there(home):
    file = Remote("set/file.gz", "http://127.0.0.1:9/file", 1, DIGEST)
    with pytest.raises(RegardError, match=r"could not be fetched .*: try again; or fetch it by hand and put it at "):
        located(file, "CC0", lambda _: None)


def test_no_room(home, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fetch.os, "fsync", full)
    with pytest.raises(NoSpace, match="no space left for 300001 bytes"):
        located(remote(home), "CC0", lambda _: None)
    assert left() == []


def test_a_folder_that_cannot_be_written(home, tmp_path, monkeypatch):
    (tmp_path / "cache").write_bytes(b"a file")
    with pytest.raises(RegardError, match=r"could not be written .*: set XDG_CACHE_HOME"):
        located(remote(home), "CC0", lambda _: None)


def test_to_stderr(capsys):
    fetch.to_stderr("hello")
    assert capsys.readouterr() == ("", "hello\n")


def archive(tmp_path, *names):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        for name in names:
            made.writestr(name, f"in {name}\n")
    return tmp_path / "a.zip"


def test_a_member_is_read_and_nothing_written(tmp_path):
    path = archive(tmp_path, "inner/a.txt", "../out.txt")
    with member(path, "inner/a.txt") as stream:
        assert stream.read() == b"in inner/a.txt\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.zip"]


OUTSIDE = ["../out.txt", "/etc/passwd", "a/../../b", "..\\out.txt", "C:\\x", "\\\\host\\x", "a\0b", "..", "a/.."]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_name_that_leads_out_is_refused(tmp_path, name):
    with (
        pytest.raises(BadData, match="inside the archive leads out of it"),
        member(archive(tmp_path, "../out.txt"), name),
    ):
        pass


def test_what_is_no_archive(tmp_path):
    with pytest.raises(BadData, match="no file named 'b' in the archive"), member(archive(tmp_path, "a"), "b"):
        pass
    (tmp_path / "b.zip").write_bytes(b"PK hello")
    with pytest.raises(BadData, match="not a zip archive that can be read"), member(tmp_path / "b.zip", "a"):
        pass
    data = bytearray(archive(tmp_path, "a").read_bytes())
    data[data.index(b"in a")] ^= 1
    (tmp_path / "c.zip").write_bytes(data)
    with pytest.raises(BadData, match="Bad CRC-32"), member(tmp_path / "c.zip", "a") as stream:
        io.BytesIO(stream.read())
