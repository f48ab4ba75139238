"""Threads, files, sockets and a database, as the system below them has them."""

import errno
import http.client
import http.server
import os
import pathlib
import platform
import queue
import select
import shutil
import socket
import sqlite3
import sys
import tempfile
import threading
import time
import urllib.request


def check(name, value):
    if not value:
        print("wrong:", name)


# The interpreter is no file, and what libraries say of the system needs none.
check("no interpreter's file", sys.executable == sys._base_executable == "")
check("platform", platform.platform().startswith("Linux-6.1.0-x86_64") and platform.architecture()[0] == "64bit")

# Threads.
numbers, lock, total = queue.Queue(), threading.Lock(), [0]
local = threading.local()


def add():
    local.sum = 0
    while (number := numbers.get()) is not None:
        local.sum += number
    with lock:
        total[0] += local.sum


threads = [threading.Thread(target=add) for _ in range(8)]
for thread in threads:
    thread.start()
for number in range(1000):
    numbers.put(number)
for _ in threads:
    numbers.put(None)
for thread in threads:
    thread.join()
check("threads", total[0] == 499500 and not hasattr(local, "sum"))
event = threading.Event()
timer = threading.Timer(0.01, event.set)
timer.start()
check("timer", event.wait(60) and threading.Event().wait(0.01) is False)
failed = []
threading.excepthook = lambda arguments: failed.append(arguments.exc_type)
thread = threading.Thread(target=lambda: 1 / 0)
thread.start()
thread.join()
check("a thread's exception", failed == [ZeroDivisionError])

# Files.
folder = pathlib.Path("/data/folder")
folder.mkdir()
path = folder / "text.txt"
path.write_text("first\nWörter\n")
check("text", path.read_text() == "first\nWörter\n" and path.stat().st_size == 14)
with open(path, "r+b") as file:
    file.seek(-1, os.SEEK_END)
    file.write(b"!\n")
    file.flush()
    os.fsync(file.fileno())
    check("tell", file.tell() == 15 and os.fstat(file.fileno()).st_size == 15)
check("lines", list(open(path)) == ["first\n", "Wörter!\n"])
path.rename(folder / "other.txt")
check("listing", [entry.name for entry in os.scandir(folder)] == ["other.txt"] and not path.exists())
shutil.copytree(folder, "/data/copy")
check("walk", sorted(str(found) for found in pathlib.Path("/data").rglob("*.txt")) == ["/data/copy/other.txt", "/data/folder/other.txt"])
shutil.rmtree("/data/copy")
os.chdir("/data")
check("cwd", os.getcwd() == "/data" and os.path.exists("folder/other.txt") and not os.path.exists("copy"))
with tempfile.TemporaryDirectory(dir="/data") as temporary:
    with tempfile.NamedTemporaryFile(dir=temporary) as file:
        file.write(b"x")
check("temporary", not os.path.exists(temporary))
try:
    open("/data/none")
except FileNotFoundError as error:
    check("errno", error.errno == errno.ENOENT and error.filename == "/data/none")
try:
    open("/elsewhere", "w")
except OSError as error:
    check("elsewhere", error.errno in (errno.EROFS, errno.ENOENT, errno.EACCES))

# A database in a file.
with sqlite3.connect("/data/base.db") as base:
    base.execute("create table word (text text, count integer)")
    base.executemany("insert into word values (?, ?)", [(f"word {n}", n) for n in range(1000)])
base.close()
base = sqlite3.connect("/data/base.db")
check("rows", base.execute("select sum(count), max(text) from word").fetchone() == (499500, "word 999"))
base.create_function("twice", 1, lambda value: value * 2)
check("functions", base.execute("select twice(21)").fetchone() == (42,))
try:
    with base:
        base.execute("delete from word")
        raise KeyError
except KeyError:
    pass
check("rolled back", base.execute("select count(*) from word").fetchone() == (1000,))
base.execute("create virtual table found using fts5(text)")
base.execute("insert into found select text from word")
check("full text", base.execute("select count(*) from found where found match '\"word 7\"'").fetchone() == (1,))
base.close()

# Sockets.
a, b = socket.socketpair()
a.sendall(b"pair")
check("select", select.select([b], [], [], 60)[0] == [b] and b.recv(10) == b"pair")
poll = select.poll()
poll.register(a, select.POLLIN)
check("poll", poll.poll(1) == [])
a.close()
check("closed", b.recv(1) == b"")
b.close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).upper()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
serving.start()
address = f"http://127.0.0.1:{server.server_port}/"
check("http", urllib.request.urlopen(address, data=b"hello", timeout=60).read() == b"HELLO")
client = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
for body in (b"one", b"two" * 100_000):
    client.request("POST", "/", body)
    check("client", client.getresponse().read() == body.upper())
client.close()
server.shutdown()
serving.join()
server.server_close()
datagrams = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
for datagram in datagrams:
    datagram.bind(("127.0.0.1", 0))
    datagram.settimeout(60)
datagrams[0].sendto(b"datagram", datagrams[1].getsockname())
check("datagrams", datagrams[1].recvfrom(100) == (b"datagram", datagrams[0].getsockname()))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=60)
    check("not allowed", False)
except OSError as error:
    check("not allowed", error.errno in (errno.EACCES, errno.EPERM))

began = time.monotonic()
time.sleep(0.02)
check("sleep", time.monotonic() - began >= 0.02)
print("all right")
