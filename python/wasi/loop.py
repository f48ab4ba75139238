"""The loop of `asyncio` where there are no other threads that could wake it: callbacks, timers, and sockets that the program has."""

import selectors
import socket
import time
from asyncio import selector_events


class Selector(selectors.DefaultSelector):
    """One that knows when it would wait without end."""

    def select(self, timeout=None):
        if self.get_map():
            return super().select(timeout)
        if timeout is None:
            raise RuntimeError("every task waits, and nothing is left that could go on")
        if timeout > 0:
            time.sleep(timeout)
        return []


class Loop(selector_events.BaseSelectorEventLoop):
    """What `asyncio.run` runs in."""

    def __init__(self):
        super().__init__(Selector())

    # Others write into a pipe that the loop waits for.

    def _make_self_pipe(self):
        pass

    def _close_self_pipe(self):
        pass

    def _write_to_self(self):
        pass

    # Others ask in a thread. These are answered at once.

    async def getaddrinfo(self, host, port, *, family=0, type=0, proto=0, flags=0):
        return socket.getaddrinfo(host, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr, flags=0):
        return socket.getnameinfo(sockaddr, flags)
