"""The loop of `asyncio` where there are no descriptors to wait for and no other threads: callbacks, and timers."""

import time
from asyncio import base_events


class Timers:
    """A selector that waits and finds nothing."""

    @staticmethod
    def select(timeout):
        if timeout is None:
            raise RuntimeError("every task waits, and nothing is left that could go on")
        if timeout > 0:
            time.sleep(timeout)
        return ()


class Loop(base_events.BaseEventLoop):
    """What `asyncio.run` runs in."""

    _selector = Timers

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass
