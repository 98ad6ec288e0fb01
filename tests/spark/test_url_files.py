"""Files by URL, of file systems that behave as those of fsspec do, each in its own way."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import fsspec
import pyspark
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from kraft_trio.errors import ConfigError
from kraft_trio.spark.directories.files import files_of, read_all
from kraft_trio.spark.directories.url_files import UrlFiles
from kraft_trio.spark.file_system import Entry
from tests.spark.loading import load
from tests.support.programs import REPOSITORY


class Shelf(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """Like those of HDFS: paths lack the host, failures are of any kind, and `seek` returns nothing."""

    protocol = "shelf"
    store: ClassVar[dict[str, Any]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    renames = True

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(super()._strip_protocol(re.sub("^shelf://[^/]*", "", path)))

    @staticmethod
    def _get_kwargs_from_urls(path: str) -> dict[str, str]:
        return {"host": path.removeprefix("shelf://").partition("/")[0]}

    def __init__(self, host: str) -> None:
        super().__init__()
        self.process = os.getpid()
        if not host:
            raise OSError("unable to load the client\ntried /usr/lib\ntried /lib")

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os._exit(86)

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if path.endswith("standby"):
            raise RuntimeError('RPCError("StandbyException", "state standby\\n\\tat NameNode.java")')
        if path.endswith("nowhere"):
            raise FileNotFoundError("no such place\n\tat NameNode.java:17")
        return super().ls(path, detail, **options)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        file = super().open(path, mode, **options)
        return _Silent(file) if mode == "rb" else file

    def mv(self, path1: str, path2: str, **options: Any) -> None:
        assert path2.startswith("/"), "an absolute path"
        if self.renames:
            super().mv(path1, path2, **options)


class _Silent:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def seek(self, offset: int, whence: int = 0) -> None:
        self._file.seek(offset, whence)


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    fsspec.register_implementation("shelf", Shelf, clobber=True)
    Shelf.store.clear()
    yield Shelf("here")
    Shelf.store.clear()
    Shelf.clear_instance_cache()


def test_paths_of_a_glob_lead_to_the_same_host(shelf: Shelf) -> None:
    for name in ("a", "b"):
        shelf.pipe_file(f"/logs/{name}/file", b"content")
    files = files_of("shelf://here/logs/*")
    assert files.expand("shelf://here/logs/*") == ["shelf://here/logs/a", "shelf://here/logs/b"]
    assert files.entries("shelf://here/logs/a") == [Entry("file", False, 7)]
    assert files.entry("shelf://here/logs/a") == Entry("a", True, 0)


def test_a_glob_of_a_store_with_buckets() -> None:
    system = fsspec.filesystem("memory")
    system.pipe_file("/bucket/x/file", b"content")
    try:
        assert files_of("memory://bucket/*").expand("memory://bucket/*") == ["memory://bucket/x"]
    finally:
        system.rm("/bucket", recursive=True)


def test_a_file_tells_where_it_is(shelf: Shelf) -> None:
    shelf.pipe_file("/file", b"0123456789")
    files = files_of("shelf://here/file")
    with files.open("shelf://here/file") as file:
        assert file.seek(0, 2) == 10
        assert file.seek(4) == 4
        assert file.read(3) == b"456"
    assert read_all(files, "shelf://here/file") == b"0123456789"


@pytest.mark.parametrize(
    ("name", "number", "text"),
    [
        ("standby", errno.EIO, 'RPCError("StandbyException", "state standby'),
        ("nowhere", errno.ENOENT, "No such file or directory"),
    ],
)
def test_a_failure_is_an_os_error_of_one_line(shelf: Shelf, name: str, number: int, text: str) -> None:
    path = f"shelf://here/{name}"
    with pytest.raises(OSError) as caught:
        files_of(path).entries(path)
    assert (caught.value.errno, caught.value.strerror, caught.value.filename) == (number, text, path)


def test_a_process_that_forks_keeps_what_its_child_must_not_end(shelf: Shelf) -> None:
    """Spark starts Java with a function that runs in the child, and fsspec forgets all file systems there."""
    files_of("shelf://elsewhere/file")
    assert subprocess.run(["true"], preexec_fn=os.getpid, check=False).returncode == 0


def test_a_client_that_cannot_start_is_told_in_one_line(shelf: Shelf) -> None:
    with pytest.raises(ConfigError, match=r"^path shelf:///file: unable to load the client$"):
        files_of("shelf:///file")


def test_a_file_is_complete_when_it_has_its_name(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    files = UrlFiles.of("shelf://here/out")
    files.write("shelf://here/out", "one", b"content")
    assert shelf.cat_file("/out/one") == b"content"
    assert [Path(path).name for path in shelf.ls("/out", detail=False)] == ["one"]
    monkeypatch.setattr(Shelf, "renames", False)
    with pytest.raises(OSError, match="two cannot be given its name"):
        files.write("shelf://here/out", "two", b"content")


class _WebHdfs(BaseHTTPRequestHandler):
    """A name node that has a file, and a data node that answers with an error."""

    protocol_version = "HTTP/1.1"
    data_node = ""

    def do_GET(self) -> None:
        if "op=OPEN" not in self.path:
            status = {"type": "FILE", "length": 200, "pathSuffix": "quorum-state"}
            self._answer(200, {"FileStatus": status, "FileStatuses": {"FileStatus": [status]}})
        elif self.data_node:
            self._answer(307, {}, {"Location": f"{self.data_node}{self.path}"})
        else:
            self._answer(500, {"RemoteException": {"exception": "IOException", "message": "no leader " * 30}})

    def _answer(self, code: int, answer: Any, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(answer).encode()
        self.send_response(code)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def test_an_error_of_a_data_node_is_no_content() -> None:
    pytest.importorskip("requests")
    servers = []
    address = ""
    for _ in range(2):
        handler = type("Handler", (_WebHdfs,), {"data_node": address})
        server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
    try:
        path = f"webhdfs://127.0.0.1:{servers[1].server_port}/node"
        [row] = load(path, content="quorum-state")
        assert "quorum-state: cannot be read: 500 Server Error" in row["error"]
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()


def test_hadoop_is_that_of_pyspark() -> None:
    """The jars that scripts/get-hadoop gets have the version of the client in PySpark, whose JVM asks them."""
    script = (REPOSITORY / "scripts" / "get-hadoop").read_text()
    [client] = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    assert f"newest={client.stem.removeprefix('hadoop-client-api-')}\n" in script
