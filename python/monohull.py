"""Slots, events, the instance of a function and its invocation.

    from monohull import instance, slots

    text = slots.get("text")                    # a memoryview of the slot's memory, which this instance now owns
    slots.put("upper", bytes(text).upper())     # copied once
    room = slots.make(1 << 20)                  # memory that a slot can take over
    room[:5] = b"hello"
    slots.put("greeting", room)                 # not copied; `room` has been released
    blob = perform("blob", "logo.png")          # what the step that handles this effect replies
    child = start("thumbnail", "one", text)     # an invocation of another workflow
    small = child.join().output("small")        # waits for its end
    answer = call_cc("question")                # waits for the function that takes the continuation from the slot and resumes it
"""

import gc as _gc
import io as _io
import itertools as _itertools
import os as _os
import sys as _sys
import time as _time

import _monohull
from _monohull import Error

__all__ = [
    "Answer", "CANCEL", "Callback", "Child", "Continuation", "Error", "Outcome", "call_cc", "callback", "checkpoint", "event", "fail", "first_of", "fork", "generation",
    "handed_over", "instance", "invocation_id", "perform", "publish", "ready", "resume", "send", "sleep", "slots", "start", "start_detached", "step",
]

# The name of the event that tells the invocation to end. A function that waits for it, beside what it waits for, undoes what it has done and returns; one that
# does not is ended when it is cancelled.
CANCEL = "cancel:"

_FOR_EVER = (1 << 64) - 1
_ENDINGS = ("completed", "failed", "cancelled", "refused", "too large")


def _bytes(data):
    return data.encode() if isinstance(data, str) else data


def _nanoseconds(timeout):
    return _FOR_EVER if timeout is None else min(max(0, int(timeout * 1e9)), _FOR_EVER - 1)


class slots:
    """The slots of the workflow, by name."""

    def __new__(cls):
        raise TypeError("there is one set of slots, `monohull.slots`")

    @staticmethod
    def get(name, *, wait=True, writable=False):
        """Takes what is in a slot: a memoryview of its memory. Waits until it is filled; without `wait` the answer is None if it is not.

        With `writable` the bytes can be changed. A failed instance that has asked for that is not repeated alone.
        """
        try:
            return memoryview(_monohull.take(name, wait, writable))
        except Error as error:
            if wait or error.number != _monohull.NOT_FOUND:
                raise
            return None

    @staticmethod
    def make(length):
        """Memory of so many zeros that `put` can give to a slot without a copy: a writable memoryview."""
        return memoryview(_monohull.make(length))

    @staticmethod
    def put(name, data):
        """Fills a slot with bytes, with a text as UTF-8, or with anything contiguous that has a buffer.

        A view from `get` or `make` is released. If it begins where its memory does, and there is no other view of that, the memory goes to
        the slot without a copy.
        """
        _monohull.put(name, _bytes(data))


class _Instance:
    """Which of its step's instances this is."""

    __slots__ = ()

    @property
    def index(self):
        """Its number, from 0."""
        return _monohull.instance()[0]

    @property
    def count(self):
        """How many there are."""
        return _monohull.instance()[1]

    @property
    def attempt(self):
        """Which attempt this is, from 1."""
        return _monohull.instance()[2]


instance = _Instance()


def _flush():
    for one in _gc.get_objects():
        if isinstance(one, (_io.TextIOWrapper, _io.BufferedWriter, _io.BufferedRandom)) and not one.closed:
            try:
                one.flush()
            except Exception:
                # As for a file that goes with its object.
                pass


def ready():
    """Says that the program is ready for its inputs. True if this instance has started here, and not at the beginning of the program.

    What comes before is the same for all instances: imports, tables, patterns. A server runs it once for each version of the workflow, and
    later instances start with that memory. Slots, events, files, output, threads, and random numbers of `os.urandom`, `secrets`,
    `random.Random` come after it. As after a fork, the functions of the module `random` get a seed of their own here. Objects that are there now
    are left out of later collections of cycles, as by `gc.freeze`: a short run would spend most of its time on looking at them.

    At the end of a program that was ready the interpreter is not taken apart. Threads are waited for, `atexit` is done, what variables of the
    program hold is given up and cycles are collected, and files are written. Objects that modules hold are not finalized.
    """
    _gc.freeze()
    started_here = _monohull.ready(_flush)
    if "random" in _sys.modules:
        _sys.modules["random"].seed()
    return started_here


def fail(why, permanent=False):
    """Ends this instance as failed, with this text, or that of an exception. If it is permanent another attempt cannot change that, and there is none.
    Files are written; no finalizer or handler of an end is called."""
    # An exception here would end the instance as one that is tried again.
    text = str(why).encode(errors="replace").replace(b"\0", b"?")
    _flush()
    _monohull.fail(permanent, text)


def perform(effect, request=b""):
    """Asks the step of the workflow that handles an effect, with bytes or a text, and waits for its reply: a memoryview. An error if it fails."""
    failed, reply = _monohull.perform(effect, _bytes(request))
    if failed:
        raise Error(bytes(memoryview(reply)).decode(errors="replace"))
    return memoryview(reply)


def call_cc(slot):
    """Publishes the continuation of this call in a slot, and waits until another function uses it: a memoryview of what with. An error if it was dropped."""
    return memoryview(_monohull.call_cc(slot))


class Continuation:
    """The rest of a function that waits in `call_cc`. It is used once, by whichever function has it, and changes hands in a slot alone.

    One that goes unused is dropped: what waits gets an error when this instance has ended well. After a failure it is in its slot again, for the next attempt.
    """

    __slots__ = ("_owned",)

    def __new__(cls):
        raise TypeError("a continuation comes from a slot, by `Continuation.take`")

    @classmethod
    def take(cls, slot, *, wait=True):
        """Takes one from a slot. Waits until it is filled; without `wait` the answer is None if it is not."""
        try:
            owned = _monohull.take_continuation(slot, wait)
        except Error as error:
            if wait or error.number != _monohull.NOT_FOUND:
                raise
            return None
        self = object.__new__(cls)
        self._owned = owned
        return self

    def resume(self, value=b""):
        """The function that waits goes on with these bytes or this text. After an error the continuation is still this function's."""
        _monohull.resume(self._owned, _bytes(value))

    def publish(self, slot):
        """Hands it on in a slot. After an error it is still this function's."""
        _monohull.publish_continuation(self._owned, slot)

    def discard(self):
        """Drops it at once, so that what waits gets its error now. This instance is not repeated alone if it fails later."""
        _monohull.discard(self._owned)


def resume(slot, value=b""):
    """Takes a continuation from a slot, waiting until there is one, and uses it."""
    Continuation.take(slot).resume(value)


def _joined(names):
    """The names with line breaks between them. One that holds a line break would be several."""
    for name in names:
        if any(character < " " for character in name):
            raise ValueError(f"event {name!r}: a name has no control characters")
    return "\n".join(names)


def event(name, timeout=None):
    """Waits for the next event of a name, which is sent from outside: its bytes. After `timeout` seconds without one the answer is None."""
    try:
        return _monohull.event(_joined([name]), _nanoseconds(timeout))
    except TimeoutError:
        return None


def first_of(names, timeout=None):
    """Waits for the first event of several names: its name and its bytes. After `timeout` seconds without one the answer is None."""
    if isinstance(names, str):
        raise TypeError("the names of events are a list, not one text")
    names = list(names)
    try:
        which, content = _monohull.first_of(_joined(names), _nanoseconds(timeout))
    except TimeoutError:
        return None
    return names[which], content


def invocation_id():
    """The id of the invocation, by which others send it events. A copy is another invocation."""
    return _monohull.invocation()[0]


def generation():
    """How often the invocation has gone on from a checkpoint. What was drawn at random for secrets is drawn again when it has changed."""
    return _monohull.invocation()[2]


class Answer:
    """What has become of a callback: `ending` is completed, rejected, timed out or silent, `content` the bytes that a client has sent."""

    __slots__ = ("ending", "content")

    def __init__(self, ending, content=b""):
        self.ending = ending
        self.content = content


class Callback:
    """A wait that a client ends which knows the token: `POST /callbacks/ID/TOKEN` of a server, or `monohull send ID TOKEN`."""

    __slots__ = ("token",)

    def __init__(self):
        self.token = f"callback-{_os.urandom(16).hex()}"

    def answer(self, timeout=None, heartbeat=None):
        """Waits for the answer, or that there will be none (`.../TOKEN/reject`): an Answer.

        After `timeout` seconds it has timed out. With `heartbeat` the client is silent if it has not said for so many seconds that it is still at it
        (`.../TOKEN/heartbeat`). Without, a client that says so is told that this is not waited for.
        """
        endings = ("", ":rejected") if heartbeat is None else ("", ":rejected", ":heartbeat")
        names = "\n".join(self.token + ending for ending in endings)
        end = None if timeout is None else _time.monotonic() + timeout
        while True:
            left = None if end is None else max(0, end - _time.monotonic())
            is_last = heartbeat is None or left is not None and left <= heartbeat
            try:
                which, content = _monohull.first_of(names, _nanoseconds(left if is_last else heartbeat))
            except TimeoutError:
                return Answer("timed out" if is_last else "silent")
            if which < 2:
                return Answer(("completed", "rejected")[which], content)


def callback():
    """Makes a token, the name of an event that cannot be guessed: a Callback."""
    return Callback()


_uses = {}


def step(name, act, attempts=1, first=1, longest=3600, passes=Exception):
    """Calls `act` with a key, for what has an effect on the outside such as a payment, and gives its result.

    The key is the same when this is done again, after a kill, in a new attempt of the instance and after a rewind: a service gets it as its
    `Idempotency-Key`. No other step has it. After an exception of `passes` it is tried again, `attempts` times in all, with the same key. The pause between is
    `first` seconds and then twice as long each time, up to `longest`; each is shortened by up to a half, by a fixed rule, so that many that fail together
    do not try again together. It is a sleep: the workflow may be suspended.
    """
    id, own, _ = _monohull.invocation()
    number = next(_uses.setdefault(name, _itertools.count()))
    key = f"{id}/{own}/{instance.index}/{name}/{number}"
    while True:
        attempts -= 1
        try:
            return act(key)
        except passes:
            if attempts <= 0:
                raise
        sleep(min(first, longest) * (1 - hash((key, attempts)) % 1024 / 2048))
        first *= 2


def sleep(seconds):
    """Waits, for years if need be: a workflow in which everything waits can be suspended."""
    _time.sleep(seconds)


def publish(name, text):
    """Publishes a text, in place of the one before: it is read from outside while the workflow waits, and after its end."""
    _monohull.state(name, text)


def handed_over(name):
    """The text that the version before this one had published under a name, if the invocation was migrated to this version; else None."""
    try:
        return _monohull.handed_over(name).decode()
    except Error as error:
        if error.number != _monohull.NOT_FOUND:
            raise
        return None


def send(invocation, name, data=b""):
    """Sends an event to the invocation of an id, with the next checkpoint of this one or its end. `sends_to` of the workflow file names its workflow."""
    _monohull.send(invocation, name, _bytes(data))


class Outcome:
    """How a child has ended: `ending` is completed, failed, cancelled, refused or too large."""

    __slots__ = ("ending", "_end")

    def __init__(self, ending, end):
        self.ending = _ENDINGS[ending]
        self._end = end

    def output(self, slot):
        """The bytes of an output slot; None if the child has no such output, or has not completed."""
        return _monohull.child_output(self._end, slot)

    @property
    def message(self):
        """Why it has not completed."""
        return (_monohull.child_output(self._end, None) or b"").decode(errors="replace")


class Child:
    """An invocation of another workflow that this one has started."""

    __slots__ = ("id",)

    def __init__(self, id):
        self.id = id

    def join(self, timeout=None):
        """Waits for its end: an Outcome. After `timeout` seconds without it the answer is None."""
        try:
            return Outcome(*_monohull.join(self.id, _nanoseconds(timeout)))
        except TimeoutError:
            return None

    def cancel(self):
        """Cancels it, with the next checkpoint of this invocation."""
        _monohull.cancel_child(self.id)


def start(workflow, id, input=b""):
    """Starts an invocation of another workflow as a child, with the next checkpoint of this one. The same id is the same child. `starts` of the workflow
    file names the workflow."""
    _monohull.start_child(workflow, id, _bytes(input), False)
    return Child(id)


def start_detached(workflow, id, input=b""):
    """The same with one that goes on when this invocation has ended, and whose end is not told."""
    _monohull.start_child(workflow, id, _bytes(input), True)


def checkpoint(label):
    """Makes a save point, durably: False if it has gone on, True if the invocation was taken back there, or is a copy of it."""
    return _monohull.checkpoint(label)


def fork(copies):
    """Makes 1 to 100 copies of this invocation, in which the call returns too: 0 in the one that has asked, in a copy its number, from 1."""
    number = _monohull.fork(copies)
    if number and "random" in _sys.modules:
        _sys.modules["random"].seed()
    return number
