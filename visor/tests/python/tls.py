"""A server and its client over memory and over `asyncio`, with one certificate (`IDENTITY`, which the test puts before this)."""

import asyncio
import os
import ssl

from monohull import slots

with open("/tmp/identity.pem", "w") as file:
    file.write(IDENTITY)
ROOTS = str(slots.get("roots"), "ascii")


def check(name, value):
    if not value:
        print("wrong:", name)


def contexts(version=None):
    """One for the server, one for the client."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain("/tmp/identity.pem")
    server.set_alpn_protocols(["two", "one"])
    client = ssl.create_default_context(cadata=ROOTS)
    client.set_alpn_protocols(["one"])
    if version:
        client.minimum_version = client.maximum_version = version
    return server, client


def memory(version):
    """Both ends in one thread: what one writes is what the other reads."""
    contexts_of = contexts(version)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = contexts_of[0].wrap_bio(to_server, to_client, server_side=True)
    client = contexts_of[1].wrap_bio(to_client, to_server, server_hostname="server.example")
    unfinished = [client, server]
    while unfinished:
        for end in list(unfinished):
            try:
                end.do_handshake()
                unfinished.remove(end)
            except ssl.SSLWantReadError:
                pass
    client.write(b"x" * 10_000)
    check(version, server.read(10_000) == b"x" * 10_000 and client.selected_alpn_protocol() == "one")
    return client.version()


check("versions", [memory(ssl.TLSVersion.TLSv1_2), memory(ssl.TLSVersion.TLSv1_3)] == ["TLSv1.2", "TLSv1.3"])


async def serve(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()


async def streams():
    server_context, client_context = contexts()
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_context)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client_context, server_hostname="server.example")
    writer.write(b"a line\n")
    answer = await reader.read()
    writer.close()
    server.close()
    return answer


check("asyncio", asyncio.run(streams()) == b"A LINE\n")
check("random", len(set(ssl.RAND_bytes(64))) > 20 and os.path.exists("/tmp/identity.pem"))
print("all right")
