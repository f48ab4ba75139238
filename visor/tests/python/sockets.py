"""Servers of Python's library over the sockets that a WebAssembly program finds open, one after the other; the test connects to each.

What they find wrong ends the program. The text `end` gives the next one its turn.
"""

import asyncio
import errno
import http.server
import os
import select
import selectors
import socket
import socketserver
import warnings

warnings.simplefilter("error")
listen = [address.rpartition(":") for address in os.environ["MONOHULL_LISTEN"].split(",")]
HTTP, RAW, ASYNC, SIX = [(host.strip("[]"), int(port)) for host, _, port in listen]
assert os.environ["LISTEN_FDS"] == "4"


def refused(number, what):
    try:
        what()
    except OSError as error:
        assert error.errno == number, (error, number)
        return str(error)
    raise AssertionError("no error")


# A socket by its number. Nothing connects there before the first server has ended.
listener = socket.socket(fileno=5)
assert (listener.family, listener.type) == (socket.AF_INET, socket.SOCK_STREAM) and listener.getsockname() == RAW
assert listener.gettimeout() is None and listener.getblocking()
refused(errno.ENOTCONN, listener.getpeername)
assert select.select([listener], [], [], 0) == ([], [], [])
listener.setblocking(False)
refused(errno.EAGAIN, listener.accept)
listener.settimeout(0.01)
try:
    listener.accept()
    raise AssertionError("nothing connects yet")
except TimeoutError:
    pass


# A server that knows nothing of where it is.
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.over = text == b"end"
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text.upper())
        print("http", self.path, self.client_address[0], self.client_address == self.request.getpeername())

    def log_message(self, *arguments):
        pass


with http.server.HTTPServer(HTTP, Handler) as server:
    server.over = False
    assert server.server_address == HTTP and server.server_port == HTTP[1]
    said = refused(errno.EADDRINUSE, lambda: http.server.HTTPServer(HTTP, Handler))
    assert "another socket of this program" in said, said
    while not server.over:
        server.handle_request()
# It is closed.
refused(errno.EADDRNOTAVAIL, lambda: socket.create_server(HTTP))

# The socket from before, with one connection.
listener.settimeout(None)
polled = select.poll()
polled.register(listener, select.POLLIN)
assert polled.poll() == [(5, select.POLLIN)]
connection, address = listener.accept()
with connection, selectors.DefaultSelector() as selector:
    assert connection.getpeername() == address and connection.getsockname() == RAW
    selector.register(connection, selectors.EVENT_READ)
    assert [key.fileobj for key, _ in selector.select()] == [connection]
    assert connection.recv(2, socket.MSG_PEEK) == b"he"
    room = bytearray(4)
    assert connection.recv_into(room) == 4 and room == b"hell"
    assert connection.recv(100) == b"o"
    connection.settimeout(0.01)
    try:
        connection.recv(1)
        raise AssertionError("nothing is sent yet")
    except TimeoutError:
        pass
    connection.settimeout(3600)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # More than a connection holds: the test reads it when it has all of its own sent.
    connection.sendall(b"line\n" * 400_000)
    with connection.makefile("rw") as file:
        file.write("last\n")
        file.flush()
        assert file.readline() == "end\n"
    connection.shutdown(socket.SHUT_WR)
    assert connection.recv(1) == b""
refused(errno.EBADF, lambda: connection.recv(1))
assert connection.fileno() == -1
listener.close()
print("raw")


# Several connections at a time.
async def serve():
    ended = asyncio.Event()

    async def answer(reader, writer):
        while text := await reader.readline():
            writer.write(text.upper())
            await writer.drain()
            if text == b"end\n":
                ended.set()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, *ASYNC):
        await asyncio.wait_for(ended.wait(), 3600)
    print("async")


asyncio.run(serve())


# Over IPv6.
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline())


class Server(socketserver.TCPServer):
    address_family = socket.AF_INET6


# The port of the one with this host.
with Server((SIX[0], 0, 0, 0), Echo) as server:
    assert server.server_address == (*SIX, 0, 0), server.server_address
    server.handle_request()
print("IPv6")

# What there is not.
fresh = socket.socket()
for number, what in [
    (errno.EADDRNOTAVAIL, lambda: socket.create_server(("127.0.0.1", 1))),
    (errno.ENOTSUP, lambda: socket.socket(type=socket.SOCK_DGRAM)),
    (errno.ENOTSUP, socket.socketpair),
    (errno.ENOTCONN, fresh.accept),
    (errno.ENOTCONN, lambda: fresh.recv(1)),
    (errno.ENOTCONN, lambda: fresh.send(b"")),
    (errno.ENOTCONN, lambda: fresh.shutdown(socket.SHUT_WR)),
    (errno.EPERM, lambda: fresh.connect(RAW)),
    (errno.ENOTSOCK, lambda: socket.socket(fileno=1)),
    (errno.EBADF, lambda: socket.socket(fileno=77)),
    (socket.EAI_FAIL, lambda: socket.getaddrinfo("db.example", 80)),
]:
    print(refused(number, what))
fresh.close()
