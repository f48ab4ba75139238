"""A loop of asyncio that only waits: for a timer, for a pair of sockets, for a queue, for a thread. It goes on with all of them."""

import asyncio
import contextvars
import socket
import time

ship = contextvars.ContextVar("ship")


async def produce(queue):
    for number in range(4):
        await queue.put(number)


async def main():
    began = time.monotonic()
    ship.set("Argo")
    queue = asyncio.Queue(1)
    producer = asyncio.create_task(produce(queue))
    near, far = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=near)
    _, other = await asyncio.open_connection(sock=far)
    other.write(b"before ")
    await other.drain()
    reading = asyncio.create_task(reader.readline())
    thread = asyncio.create_task(asyncio.to_thread(time.sleep, 2))
    print("waits")
    await asyncio.sleep(1.5)
    print(reading.done(), producer.done(), ship.get())
    other.write(b"after\n")
    print((await reading).decode().strip())
    print([await queue.get() for _ in range(4)])
    try:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        print("in time")
    await thread
    other.close()
    print(await reader.read())
    writer.close()
    if time.monotonic() - began >= 2:
        print("all right")


asyncio.run(main())
