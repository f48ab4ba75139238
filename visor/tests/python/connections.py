"""Connections that a Python program makes, in both of its interpreters: to peers of the test, whose addresses are in the environment.

What is found wrong ends the program.
"""

import asyncio
import errno
import http.client
import os
import select
import selectors
import socket
import urllib.error
import urllib.request
import warnings

warnings.simplefilter("error")


def address(name):
    host, _, port = os.environ[name].rpartition(":")
    return host.strip("[]"), int(port)


# One that answers lines and requests, the same over IPv6; one where nothing listens, one whose queue is full, one that is not granted.
PEER, SIX, CLOSED, FULL, OTHER = map(address, ["PEER", "SIX", "CLOSED", "FULL", "OTHER"])
SHORT, LONG = 0.05, 3600


def raised(kind, what):
    try:
        what()
    except kind as error:
        return error
    raise AssertionError("no error")


def refused(number, what):
    error = raised(OSError, what)
    assert error.errno == number, (error, number)


def answered(connection, line):
    connection.sendall(line + b"\n")
    with connection.makefile("rb") as file:
        assert file.readline() == line.upper() + b"\n"


# As most programs do.
with socket.create_connection(PEER) as connection:
    assert connection.getpeername() == PEER and connection.getsockname()[0] == PEER[0]
    assert connection.gettimeout() is None and connection.getblocking()
    answered(connection, b"hello")
    refused(errno.EISCONN, lambda: connection.connect(PEER))
    answered(connection, b"again")
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
refused(errno.EBADF, lambda: connection.connect(PEER))
with socket.create_connection(("localhost", PEER[1]), timeout=LONG) as connection:
    assert connection.gettimeout() == LONG
    answered(connection, b"by name")
with socket.create_connection(SIX) as connection:
    assert connection.family == socket.AF_INET6 and connection.getpeername()[:2] == SIX
    answered(connection, b"six")
with socket.socket(socket.AF_INET6) as connection:
    connection.connect((*SIX, 0, 0))
    answered(connection, b"all four")

# What takes too long.
raised(TimeoutError, lambda: socket.create_connection(FULL, timeout=SHORT))
with socket.socket() as connection:
    connection.settimeout(SHORT)
    raised(TimeoutError, lambda: connection.connect(FULL))
with socket.socket() as connection:
    connection.settimeout(SHORT)
    assert connection.connect_ex(FULL) == errno.EAGAIN
socket.setdefaulttimeout(SHORT)
raised(TimeoutError, lambda: socket.create_connection(FULL))
socket.setdefaulttimeout(None)

# Where nothing listens: the socket may try elsewhere.
raised(ConnectionRefusedError, lambda: socket.create_connection(CLOSED))
with socket.socket() as connection:
    number = connection.fileno()
    raised(ConnectionRefusedError, lambda: connection.connect(CLOSED))
    assert connection.connect_ex(CLOSED) == errno.ECONNREFUSED
    refused(errno.ENOTCONN, connection.getpeername)
    assert connection.connect_ex(PEER) == 0 and connection.fileno() == number
    answered(connection, b"in the end")
    assert connection.connect_ex(PEER) == errno.EISCONN

# Without waiting.
with socket.socket() as connection, selectors.DefaultSelector() as selector:
    connection.setblocking(False)
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    number = connection.fileno()
    assert number > 2
    error = raised(BlockingIOError, lambda: connection.connect(PEER))
    assert error.errno == errno.EINPROGRESS and connection.fileno() == number
    selector.register(connection, selectors.EVENT_WRITE)
    assert [key.fileobj for key, _ in selector.select()] == [connection]
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    assert connection.getpeername() == PEER
    assert connection.connect_ex(PEER) in (0, errno.EISCONN)
    refused(errno.EISCONN, lambda: connection.connect(PEER))
    raised(BlockingIOError, lambda: connection.recv(1))
    assert connection.send(b"line\n") == 5
    selector.modify(connection, selectors.EVENT_READ)
    assert selector.select()
    assert connection.recv(1) == b"L"
    # From now on it waits.
    connection.setblocking(True)
    with connection.makefile("rb") as file:
        assert file.readline() == b"INE\n"
with socket.socket() as connection:
    connection.setblocking(False)
    assert connection.connect_ex(CLOSED) == errno.EINPROGRESS
    assert select.select([], [connection], []) == ([], [connection], [])
    assert [connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for _ in range(2)] == [errno.ECONNREFUSED, 0]
with socket.socket() as connection:
    connection.setblocking(False)
    assert connection.connect_ex(FULL) == errno.EINPROGRESS
    assert connection.connect_ex(FULL) == errno.EALREADY
    assert select.select([], [connection], [], 0) == ([], [], [])
    raised(BlockingIOError, lambda: connection.recv(1))
    refused(errno.ENOTCONN, connection.getpeername)

# What is not granted, and wrong arguments.
raised(PermissionError, lambda: socket.create_connection(OTHER))
for _ in range(2000):
    with socket.socket() as connection:
        assert connection.connect_ex(OTHER) == errno.EPERM
for wrong in [("127.0.0.1",), "127.0.0.1:80", (80, "127.0.0.1")]:
    with socket.socket() as connection:
        raised(TypeError, lambda: connection.connect(wrong))
for port in -1, 65536:
    with socket.socket() as connection:
        raised(OverflowError, lambda: connection.connect(("127.0.0.1", port)))

# Names.
found = socket.getaddrinfo("localhost", PEER[1], type=socket.SOCK_STREAM)
assert (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, PEER) in [(*each[:3], each[4]) for each in found], found
# This one is looked up in both.
assert {found[4][0] for found in socket.getaddrinfo("localhost.", None)} <= {"127.0.0.1", "::1"}
assert {found[0] for found in socket.getaddrinfo("localhost.", 80, socket.AF_INET)} == {socket.AF_INET}
assert socket.getaddrinfo("::1", "80", type=socket.SOCK_STREAM)[0][4] == ("::1", 80, 0, 0)
assert socket.gethostbyname("localhost.") == "127.0.0.1"
assert "127.0.0.1" in socket.gethostbyname_ex("localhost.")[2]
for name, number, flags in [
    ("db.example", socket.EAI_FAIL, 0),
    ("db.example", socket.EAI_NONAME, socket.AI_NUMERICHOST),
    ("no name", socket.EAI_NONAME, 0),
]:
    error = raised(socket.gaierror, lambda: socket.getaddrinfo(name, 80, flags=flags))
    assert error.errno == number, (name, error)
raised(socket.gaierror, lambda: socket.create_connection(("db.example", 80)))
raised(socket.gaierror, lambda: socket.gethostbyname("db.example"))

# HTTP.
connection = http.client.HTTPConnection(*PEER, timeout=LONG)
for body in b"first", b"second":
    connection.request("POST", "/path", body=body)
    with connection.getresponse() as response:
        assert (response.status, response.read()) == (200, b"POST /path " + body.upper())
connection.close()
at = f"http://{PEER[0]}:{PEER[1]}"
with urllib.request.urlopen(f"{at}/there?a=b") as response:
    assert (response.status, response.headers["Server"], response.read()) == (200, "peer", b"GET /there?a=b ")
with urllib.request.urlopen(f"{at}/large", timeout=LONG) as response:
    assert response.read() == b"0123456789abcdef" * (1 << 17)
with urllib.request.urlopen(f"http://localhost:{PEER[1]}/", b"posted") as response:
    assert response.read() == b"POST / POSTED"
assert raised(urllib.error.HTTPError, lambda: urllib.request.urlopen(f"{at}/missing")).code == 404
for to, kind in [(CLOSED, ConnectionRefusedError), (OTHER, PermissionError)]:
    error = raised(urllib.error.URLError, lambda: urllib.request.urlopen(f"http://{to[0]}:{to[1]}/"))
    assert isinstance(error.reason, kind), error


# Several at a time.
async def exchange(text):
    reader, writer = await asyncio.open_connection(*PEER)
    for _ in range(3):
        writer.write(text + b"\n")
        await writer.drain()
        assert await reader.readline() == text.upper() + b"\n"
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()
    return text


async def fails(kind, to):
    try:
        await asyncio.wait_for(asyncio.open_connection(*to), SHORT if to == FULL else LONG)
    except kind:
        return kind
    raise AssertionError("no error")


async def main():
    texts = [b"one", b"two", b"three", b"four"]
    wrong = [(ConnectionRefusedError, CLOSED), (PermissionError, OTHER), (TimeoutError, FULL), (socket.gaierror, ("db.example", 80))]
    done = await asyncio.gather(*map(exchange, texts), *(fails(*each) for each in wrong))
    assert done == texts + [kind for kind, _ in wrong], done
    reader, writer = await asyncio.open_connection("localhost", PEER[1])
    writer.write(b"by name\n")
    assert await reader.readline() == b"BY NAME\n"
    writer.close()
    await writer.wait_closed()


asyncio.run(main())
print("all right")
