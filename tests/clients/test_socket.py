# SPDX-License-Identifier: GPL-2.0-or-later
"""perchd's socket, driven by clients that other people wrote.

perchd is started from the build directory as it runs on a machine without NVMe drives: what is
tested is the daemon and its interface, nothing is ever changed on a drive.

PERCH_BUILD names the build directory (default build/dev). As root the tests also look at the socket
with the eyes of user nobody.
"""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / os.environ.get("PERCH_BUILD", "build/dev")
PATIENCE = 20  # seconds until a condition that must come counts as never coming
STORAGE = "/redfish/v1/Systems/1/Storage/c0"
SNAPSHOT = "/redfish/v1/Oem/Perch/Snapshot"
EVENTS = "/redfish/v1/Oem/Perch/Events"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody")


def program(name):
    for place in (BUILD / "tools" / name, BUILD / "tools" / name / name):
        if place.is_file():
            return str(place)
    raise FileNotFoundError(f"{name} is not built in {BUILD}; set PERCH_BUILD")


def wait_for(condition, what):
    """What the condition answers once it is true."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.02)
    raise AssertionError(f"in {PATIENCE} s there was no {what}")


class UnixConnection(http.client.HTTPConnection):
    """Python's own HTTP client, on a unix socket."""

    def __init__(self, path, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Perchd:
    """One perchd in a directory of its own."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.socket = str(self.directory / "perchd.sock")
        self.events = str(self.directory / "events.db")
        self.errors = self.directory / "stderr"
        self.process = None

    def command(self, *extra):
        return [program("perchd"), "--socket", self.socket, "--run-dir", str(self.directory),
                "--events", self.events, *extra]

    def start(self, environment=None):
        with open(self.errors, "ab") as errors:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=errors, stderr=errors,
                env={**os.environ, **(environment or {})})
        wait_for(self.answers, "answer of perchd: " + self.said())
        return self

    def answers(self):
        if self.process.poll() is not None:
            raise AssertionError(f"perchd ended with {self.process.returncode}: {self.said()}")
        try:
            return self.get("/redfish/v1/")[0] == 200
        except OSError:
            return False

    def said(self):
        return self.errors.read_text(errors="replace") if self.errors.exists() else ""

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def connection(self):
        return UnixConnection(self.socket)

    def raw(self):
        plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        plain.settimeout(PATIENCE)
        plain.connect(self.socket)
        return plain

    def request(self, method, target, body=None):
        """Status, headers and parsed body over a fresh connection."""
        with contextlib.closing(self.connection()) as connection:
            connection.request(method, target, body)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers, json.loads(text) if text else None

    def get(self, target):
        return self.request("GET", target)

    def curl(self, *arguments):
        return subprocess.run(
            ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE), "--unix-socket",
             self.socket, *arguments], capture_output=True, text=True, check=False)

    def perchcli(self, *words, **environment):
        return subprocess.run(
            [program("perchcli"), *words], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=PATIENCE,
            env={**os.environ, "PERCH_SOCKET": self.socket, **environment})


@pytest.fixture
def directory():
    # Not pytest's own: nobody may not enter that.
    place = tempfile.mkdtemp(prefix="perch-clients-")
    os.chmod(place, 0o755)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def perchd(directory):
    daemon = Perchd(directory).start()
    yield daemon
    alive = daemon.process.poll() is None
    status = daemon.process.returncode
    daemon.stop()
    # Whatever a test did to it, only a signal that the test sent may have ended it.
    assert alive or status in (0, -signal.SIGKILL), daemon.said()
    assert "ERROR: " not in daemon.said(), daemon.said()
    assert "runtime error:" not in daemon.said(), daemon.said()


def links_in(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            if key == "@odata.id":
                yield inner
            else:
                yield from links_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from links_in(inner)


def create_body(slots=(9990, 9991, 9992)):
    """A request for drives that are certainly not there."""
    return json.dumps({
        "RAIDType": "RAID5", "Name": "never",
        "Links": {"Drives": [{"@odata.id": f"{STORAGE}/Drives/e0s{slot}"} for slot in slots]}})


# --- curl


def test_curl_walks_the_whole_tree(perchd):
    todo, seen = ["/redfish/v1/"], {}
    while todo:
        uri = todo.pop()
        if uri in seen:
            continue
        done = perchd.curl("--fail", "--dump-header", "-", "http://localhost" + uri)
        assert done.returncode == 0, f"{uri}: {done.stderr}"
        head, _, body = done.stdout.partition("\n\n")
        head = head.lower()
        assert "odata-version: 4.0" in head, uri
        assert "content-type: application/json" in head, uri
        assert "cache-control:" in head, uri
        seen[uri] = json.loads(body)
        todo += links_in(seen[uri])
    for uri in (STORAGE, STORAGE + "/Volumes", STORAGE + "/Controllers/0", SNAPSHOT, EVENTS):
        assert uri in seen


def test_curl_head_has_the_length_and_no_body(perchd):
    head = perchd.curl("--head", "http://localhost/redfish/v1/")
    assert head.returncode == 0
    body = perchd.curl("http://localhost/redfish/v1/").stdout
    assert f"content-length: {len(body.encode())}" in head.stdout.lower()
    assert perchd.curl("--head", "http://localhost/redfish/v1/nothing").stdout.split()[1] == "404"


def test_curl_a_method_that_is_not_allowed(perchd):
    done = perchd.curl("--include", "--request", "PATCH", "--data", "{}",
                       "http://localhost/redfish/v1/Systems/1")
    assert done.stdout.split()[1] == "405"
    assert "\nallow: get, head" in done.stdout.lower().replace("\r", "")


def test_curl_several_requests_on_one_connection(perchd):
    uris = ["http://localhost" + uri for uri in ("/redfish", "/redfish/v1/", STORAGE)]
    done = perchd.curl("--write-out", " %{num_connects}\n", *uris)
    assert done.returncode == 0
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["1", "0", "0"]


def test_curl_speaks_http_1_0(perchd):
    done = perchd.curl("--http1.0", "http://localhost/redfish")
    assert json.loads(done.stdout) == {"v1": "/redfish/v1/"}


@pytest.mark.parametrize("chunked", [False, True])
def test_curl_a_body_that_is_too_large(perchd, chunked):
    place = pathlib.Path(perchd.directory) / "large"
    place.write_bytes(b"x" * (3 << 20))
    extra = ["--header", "Transfer-Encoding: chunked"] if chunked else []
    done = perchd.curl("--include", *extra, "--data-binary", f"@{place}",
                       f"http://localhost{STORAGE}/Volumes")
    statuses = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("HTTP/")]
    assert statuses and statuses[-1] == "413", done.stdout + done.stderr
    assert "too large" in done.stdout
    assert perchd.get("/redfish/v1/")[0] == 200


# --- what no client should send


@pytest.mark.parametrize("junk", [
    b"\x00\x01\x02\x03\r\n\r\n",
    b"GET\r\n\r\n",
    b"GET /redfish HTTP/9.9\r\n\r\n",
    b"GET /redfish HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"GET /redfish HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /redfish HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
    b"POST /redfish HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /redfish HTTP/1.1\r\n" + b"A: " + b"b" * 100000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # a TLS hello
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
], ids=["binary", "no target", "version", "negative", "huge", "smuggle", "chunk", "long header",
        "tls", "http2"])
def test_malformed_http_ends_the_connection_and_nothing_else(perchd, junk):
    with contextlib.closing(perchd.raw()) as plain:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            plain.sendall(junk)
            plain.shutdown(socket.SHUT_WR)
            answer = b""
            while part := plain.recv(65536):
                answer += part
            assert answer == b"" or answer.split()[1].startswith(b"4"), answer
    assert perchd.get("/redfish/v1/")[0] == 200


@pytest.mark.parametrize("target", [
    "/redfish/v1/%ff", "/redfish/v1/" + "x" * 4000, "//redfish/v1", "/redfish/v1/../../etc/passwd",
    STORAGE + "/Volumes/99999999999999999999", "*", "/?" + "&" * 1000])
def test_odd_targets_are_not_found(perchd, target):
    with contextlib.closing(perchd.connection()) as connection:
        connection.putrequest("GET", target, skip_host=False)
        connection.endheaders()
        assert connection.getresponse().status == 404
    assert perchd.get("/redfish/v1/")[0] == 200


def test_bytes_that_are_no_utf8_in_target_and_body(perchd):
    with contextlib.closing(perchd.raw()) as plain:
        plain.sendall(b"GET /redfish/v1/\xff\xfe HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answer = b""
        while part := plain.recv(65536):
            answer += part
    assert answer == b"" or answer.split()[1] in (b"400", b"404")
    assert perchd.request("POST", STORAGE + "/Volumes", b"\xff\xfe")[0] == 400
    assert perchd.request("POST", STORAGE + "/Volumes",
                          b'{"RAIDType": "RAID\xff"}')[0] in (400, 501)
    assert perchd.get("/redfish/v1/")[0] == 200


def test_values_of_the_wrong_type_in_an_action(perchd):
    action = f"{STORAGE}/Drives/e0s9990/Actions/Oem/PerchDrive.SetState"
    for body in ('{"State": 7}', '{"State": null}', '{"State": ["Offline"]}', "[]", "7"):
        assert perchd.request("POST", action, body)[0] == 400, body
    assert perchd.get("/redfish/v1/")[0] == 200


def test_clients_that_send_nothing_hold_up_nobody(perchd):
    silent = [perchd.raw() for _ in range(5)]
    half = perchd.raw()
    half.sendall(b"GET /redfish/v1/ HT")
    body = perchd.raw()
    body.sendall(f"POST {STORAGE}/Volumes HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{{".encode())
    for _ in range(20):
        assert perchd.get(SNAPSHOT)[0] == 200
    # And one that goes on after a while is served.
    half.sendall(b"TP/1.1\r\nHost: x\r\n\r\n")
    assert half.recv(65536).startswith(b"HTTP/1.1 200")
    for plain in [*silent, half, body]:
        plain.close()


def test_a_client_that_does_not_read_its_answer_holds_up_nobody(perchd):
    deaf = perchd.raw()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.settimeout(0.5)
    request = b"GET /redfish/v1/ HTTP/1.1\r\nHost: x\r\n\r\n"
    with contextlib.suppress(TimeoutError):
        for _ in range(20000):
            deaf.sendall(request)
    assert perchd.get("/redfish/v1/")[0] == 200
    deaf.close()


def test_130_connections(perchd):
    held = []
    for _ in range(130):
        plain = perchd.raw()
        held.append(plain)
    request = b"GET /redfish HTTP/1.1\r\nHost: x\r\n\r\n"
    served = refused = 0
    for plain in held:
        try:
            plain.sendall(request)
            answer = plain.recv(65536)
        except OSError:
            answer = b""
        served += answer.startswith(b"HTTP/1.1 200")
        refused += answer == b""
    assert served >= 100, "most are served"
    assert served + refused == 130, "the others are turned away, not left waiting"
    for plain in held:
        plain.close()
    # As soon as they are gone everything is as before.
    def again():
        try:
            return perchd.get("/redfish/v1/")[0] == 200
        except (OSError, http.client.HTTPException):
            return False
    wait_for(again, "answer after the many")


# --- Python's http.client


def test_python_keeps_a_connection_alive(perchd):
    with contextlib.closing(perchd.connection()) as connection:
        connection.connect()
        same = connection.sock
        for target, status in (("/redfish/v1/", 200), ("/nothing", 404), (SNAPSHOT, 200)):
            connection.request("GET", target)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == status
            assert connection.sock is same
        connection.request("HEAD", "/redfish/v1/")
        assert connection.getresponse().read() == b""
        connection.request("GET", "/redfish")
        assert json.loads(connection.getresponse().read()) == {"v1": "/redfish/v1/"}


def test_python_errors_are_dmtf_objects(perchd):
    status, headers, body = perchd.get(STORAGE + "/Volumes/77")
    assert status == 404
    assert headers["Content-Type"].startswith("application/json")
    assert body["error"]["code"] == "Perch.1.0.not_found"
    assert body["error"]["@Message.ExtendedInfo"][0]["Message"] == body["error"]["message"]


def test_python_a_task_from_its_request_to_its_end(perchd):
    status, headers, task = perchd.request("POST", STORAGE + "/Volumes", create_body())
    assert status == 202
    monitor = headers["Location"]
    assert monitor == task["TaskMonitor"]

    def ended():
        answer = perchd.get(monitor)
        return answer if answer[0] != 202 else None

    status, _, body = wait_for(ended, "end of the task")
    assert status == 404
    assert "e0s9990" in body["error"]["message"]
    shown = perchd.get(task["@odata.id"])[2]
    assert shown["TaskState"] == "Exception"
    members = perchd.get("/redfish/v1/TaskService/Tasks")[2]["Members"]
    assert {"@odata.id": task["@odata.id"]} in members


def test_python_finished_tasks_are_kept_in_bounds(perchd):
    with contextlib.closing(perchd.connection()) as connection:
        for _ in range(130):
            connection.request("POST", STORAGE + "/Volumes", create_body())
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 202
    wait_for(lambda: all(task["state"] != "Running" for task in perchd.get(SNAPSHOT)[2]["tasks"]),
             "end of all tasks")
    perchd.request("POST", STORAGE + "/Volumes", create_body())
    assert len(perchd.get(SNAPSHOT)[2]["tasks"]) <= 101


# --- waiting for changes


def test_a_long_poll_ends_with_the_next_change(perchd):
    generation = perchd.get(SNAPSHOT)[2]["generation"]
    assert generation > 0
    answers = []

    def poll():
        answers.append(perchd.get(f"{SNAPSHOT}?after={generation}"))

    poller = threading.Thread(target=poll)
    poller.start()
    for _ in range(5):
        assert perchd.get("/redfish/v1/")[0] == 200
    assert not answers
    perchd.request("POST", STORAGE + "/Volumes", create_body())
    poller.join(PATIENCE)
    assert answers and answers[0][0] == 200
    assert answers[0][2]["generation"] > generation
    assert answers[0][2]["tasks"][-1]["name"] == "Create a VD"


def test_a_poll_for_what_is_past_is_answered_at_once(perchd):
    generation = perchd.get(SNAPSHOT)[2]["generation"]
    assert perchd.get(f"{SNAPSHOT}?after={generation - 1}")[2]["generation"] >= generation


def test_polls_that_are_given_up_and_too_many_of_them(perchd):
    polls = []
    for _ in range(40):
        plain = perchd.raw()
        plain.sendall(f"GET {SNAPSHOT}?after=999999999 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        polls.append(plain)
    for plain in polls:
        plain.close()
    polls = []
    for _ in range(70):
        plain = perchd.raw()
        plain.sendall(f"GET {SNAPSHOT}?after=999999999 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        polls.append(plain)
    assert perchd.get(SNAPSHOT)[0] == 200
    # A change wakes those that wait, given up or not.
    perchd.request("POST", STORAGE + "/Volumes", create_body())
    assert perchd.get(SNAPSHOT)[0] == 200
    for plain in polls:
        plain.close()
    assert perchd.get(SNAPSHOT)[0] == 200


def test_a_poll_for_no_number_is_refused(perchd):
    assert perchd.get(SNAPSHOT + "?after=x")[0] == 400
    assert perchd.get(EVENTS + "?after=x")[0] == 400


# --- perchcli


@pytest.mark.parametrize("line", ["show", "show all", "/c0 show", "/c0 show all", "/c0/vall show",
                                  "/c0/vall show all", "/c0/eall show", "/c0/eall/sall show",
                                  "/c0 show events", "show ctrlcount"])
def test_perchcli_shows_and_its_json_is_json(perchd, line):
    text = perchd.perchcli(*line.split())
    assert text.returncode == 0, text.stdout + text.stderr
    assert "Status = Success" in text.stdout
    answer = perchd.perchcli(*line.split(), "J")
    assert answer.returncode == 0
    controllers = json.loads(answer.stdout)["Controllers"]
    assert controllers[0]["Command Status"]["Status"] == "Success"


def test_perchcli_exit_statuses(perchd):
    for line, status in (("/c1 show", 255), ("/c0/v77 show", 255), ("/c0/e0/s9990 show", 255),
                         ("nonsense", 1), ("/c0 add vd r5 drives=0:9990-9992", 255),
                         ("/c0/v77 del force", 255)):
        done = perchd.perchcli(*line.split(), "J")
        assert done.returncode == status, f"{line}: {done.returncode} {done.stdout}"
        assert json.loads(done.stdout)["Controllers"][0]["Command Status"]["Status"] == "Failure"


def test_perchcli_without_perchd_says_so(directory):
    done = Perchd(directory).perchcli("show")
    assert done.returncode == 204
    assert "perchd" in done.stdout + done.stderr


def test_perchcli_on_a_socket_that_nobody_serves(perchd):
    perchd.process.kill()
    perchd.process.wait()
    assert os.path.exists(perchd.socket)
    assert perchd.perchcli("show", "J").returncode == 204


def test_perchcli_events_are_those_of_the_daemon(perchd):
    events = perchd.get(EVENTS)[2]["Events"]
    assert any("started" in event["text"] for event in events)
    done = perchd.perchcli("/c0", "show", "events", "J")
    assert "started" in done.stdout


def test_device_mapper_missing_is_a_problem_that_is_shown(perchd):
    problems = perchd.get(SNAPSHOT)[2]["problems"]
    missing = not os.path.exists("/dev/mapper/control")
    assert any("device-mapper" in problem["what"] for problem in problems) == missing
    assert ("device-mapper" in perchd.perchcli("show").stdout) == missing


# --- the daemon's life


def test_a_second_perchd_refuses_and_leaves_the_first_alone(perchd):
    second = subprocess.run(perchd.command(), capture_output=True, text=True, timeout=PATIENCE,
                            check=False)
    assert second.returncode == 1
    assert "running already" in second.stderr
    other = Perchd(perchd.directory)
    other.socket += ".other"
    second = subprocess.run(other.command(), capture_output=True, text=True, timeout=PATIENCE,
                            check=False)
    assert second.returncode == 1
    assert perchd.get("/redfish/v1/")[0] == 200


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_ends_well_and_soon(perchd, how):
    # Also with clients that wait.
    poll = perchd.raw()
    poll.sendall(f"GET {SNAPSHOT}?after=999999999 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    silent = perchd.raw()
    perchd.process.send_signal(how)
    assert perchd.process.wait(timeout=5) == 0
    assert not os.path.exists(perchd.socket)
    poll.close()
    silent.close()


def test_its_end_is_in_the_event_log(perchd):
    perchd.process.terminate()
    assert perchd.process.wait(timeout=5) == 0
    perchd.start()
    texts = [event["text"] for event in perchd.get(EVENTS)[2]["Events"]]
    assert any("stopped" in text for text in texts)


def test_told_to_end_while_it_starts(directory):
    for _ in range(10):
        daemon = Perchd(directory)
        daemon.start()
        daemon.process.terminate()
        assert daemon.process.wait(timeout=5) == 0, daemon.said()
        assert "ERROR: " not in daemon.said()


def test_killed_it_starts_again_on_the_old_socket_and_its_numbers_go_on(perchd):
    before = perchd.get(EVENTS)[2]["Events"][-1]["sequence"]

    def stored():
        # Written behind its back by a thread of its own; the file grows when it is.
        return os.path.exists(perchd.events) and b"started" in b"".join(
            path.read_bytes() for path in perchd.directory.glob("events.db*"))

    wait_for(stored, "event on disk")
    perchd.process.kill()
    assert perchd.process.wait() == -signal.SIGKILL
    assert os.path.exists(perchd.socket)
    perchd.start()
    events = perchd.get(EVENTS)[2]["Events"]
    assert events[-1]["sequence"] == before + 1
    assert len({event["sequence"] for event in events}) == len(events)


def test_systemd_is_told_when_it_is_ready(directory):
    place = os.path.join(directory, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(place)
        notify.settimeout(PATIENCE)
        daemon = Perchd(directory).start({"NOTIFY_SOCKET": place})
        try:
            assert b"READY=1" in notify.recv(4096)
            assert daemon.get(SNAPSHOT)[2]["generation"] > 0
            daemon.process.terminate()
            assert b"STOPPING=1" in notify.recv(4096)
        finally:
            daemon.stop()


def test_an_event_log_that_cannot_be_written_is_no_reason_not_to_run(directory):
    daemon = Perchd(directory)
    daemon.events = "/proc/none/events.db"
    daemon.start()
    try:
        assert daemon.get(EVENTS)[2]["Events"][0]["sequence"] == 1
    finally:
        daemon.stop()


def test_options():
    perchd = program("perchd")
    for words, status in ((["--help"], 0), (["--version"], 0), (["--wrong"], 2), (["word"], 2),
                          (["--socket"], 2), (["--socket=/nonexistent/sock", "--run-dir=/tmp",
                                              "--events=/proc/none/x"], 1)):
        done = subprocess.run([perchd, *words], capture_output=True, text=True, timeout=PATIENCE,
                              check=False)
        assert done.returncode == status, f"{words}: {done}"
        assert done.stdout if status == 0 else done.stderr


def test_the_path_of_the_socket_is_checked(directory):
    daemon = Perchd(directory)
    daemon.socket = os.path.join(directory, "s" * 200)
    done = subprocess.run(daemon.command(), capture_output=True, text=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 1, done
    assert "s" * 200 in done.stderr


# --- other users


def as_nobody(*command, **options):
    return subprocess.run(
        ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", *command],
        capture_output=True, text=True, check=False, timeout=PATIENCE, cwd="/", **options)


def nobody_curl(perchd, *arguments):
    return as_nobody("curl", "--silent", "--include", "--unix-socket", perchd.socket, *arguments)


@as_root
def test_nobody_may_look(perchd):
    for uri in ("/redfish/v1/", STORAGE, SNAPSHOT, EVENTS):
        done = nobody_curl(perchd, "http://localhost" + uri)
        assert done.stdout.split()[1] == "200", done.stdout + done.stderr


@as_root
def test_nobody_may_change_nothing(perchd):
    action = f"{STORAGE}/Drives/e0s9990/Actions/Oem/PerchDrive"
    for arguments in (("--data", create_body(), STORAGE + "/Volumes"),
                      ("--request", "DELETE", STORAGE + "/Volumes/1"),
                      ("--data", '{"State": "Offline"}', action + ".SetState"),
                      ("--data", "{}", action + ".StartRebuild")):
        done = nobody_curl(perchd, *arguments[:-1], "http://localhost" + arguments[-1])
        assert done.stdout.split()[1] == "403", done.stdout + done.stderr
        assert "Perch.1.0.permission" in done.stdout
    assert perchd.get(SNAPSHOT)[2]["tasks"] == []


@as_root
def test_nobody_with_perchcli(perchd):
    place = os.path.join(perchd.directory, "perchcli")
    shutil.copy(program("perchcli"), place)
    environment = {**os.environ, "PERCH_SOCKET": perchd.socket}
    assert as_nobody(place, "show", env=environment).returncode == 0
    done = as_nobody(place, "/c0/v1", "del", "force", "J", env=environment)
    assert done.returncode != 0
    answer = as_nobody(place, "/c0", "add", "vd", "r5", "drives=0:9990-9992", "J", env=environment)
    assert answer.returncode != 0
    assert perchd.get(SNAPSHOT)[2]["tasks"] == []


@as_root
def test_nobody_cannot_lock_root_out(perchd):
    """All the connections there are, held by somebody who may only look."""
    script = (
        "import socket, sys\n"
        "held = []\n"
        "for _ in range(200):\n"
        "    s = socket.socket(socket.AF_UNIX)\n"
        "    s.connect(sys.argv[1])\n"
        "    held.append(s)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n")
    with subprocess.Popen(
            ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "/usr/bin/python3",
             "-c", script, perchd.socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, cwd="/") as hog:
        assert hog.stdout.readline() == "held\n"
        done = perchd.perchcli("show", "J")
        hog.stdin.close()
    assert done.returncode == 0, done.stdout
