"""The module `_socket`, over what WASI preview 1 has and the imports beside it: sockets that listen are found open, connections are accepted there, and
others are made.

    MONOHULL_LISTEN=127.0.0.1:8080,[::1]:8080       descriptors 4 and 5, and LISTEN_FDS=2

`bind` takes the one that listens at the address which is asked for, so that a program which binds, listens and accepts is the same here as
elsewhere. `socket(fileno=4)` takes it by its number.

A new socket has a descriptor of nothing, which keeps its number for what `connect` makes:

    _FRESH ── connect ──▶ _CONNECTING ── ready for writing, no failure ──▶ _OPEN
       ▲                       └──────── a failure ───────┐
       └──────────────────────────────────────────────────┘
"""

import errno
import operator
import os
import time

import _monohull_sockets as system

AF_UNSPEC, AF_INET, AF_INET6 = 0, 2, 10
SOCK_STREAM, SOCK_DGRAM = 1, 2
IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6 = 0, 6, 17, 41
SOL_SOCKET, SO_REUSEADDR, SO_TYPE, SO_ERROR, SO_BROADCAST, SO_KEEPALIVE = 1, 2, 3, 4, 6, 9
TCP_NODELAY, IPV6_V6ONLY = 1, 26
SHUT_RD, SHUT_WR, SHUT_RDWR = 0, 1, 2
# Those of WASI.
MSG_PEEK, MSG_WAITALL, MSG_OOB = 1, 2, 16
AI_PASSIVE, AI_CANONNAME, AI_NUMERICHOST, AI_NUMERICSERV = 1, 2, 4, 0x400
EAI_NONAME, EAI_AGAIN, EAI_FAIL, EAI_FAMILY, EAI_SERVICE = -2, -3, -4, -6, -8
NI_NUMERICHOST, NI_NUMERICSERV = 1, 2
SOMAXCONN = 128
INADDR_ANY = 0
has_ipv6 = True
CAPI = None

error = OSError
timeout = TimeoutError
_timeout = None

_WITHOUT = "Python that is built for WebAssembly"
# How far a socket is.
_FRESH, _CONNECTING, _OPEN = range(3)
# The first descriptor of a socket that is found open, and those that `bind` has given to a socket.
_FIRST = 4
_bound = set()
# The ends of `system.address`.
_OWN, _OTHER = 0, 1
_ANY = {AF_INET: "0.0.0.0", AF_INET6: "::"}
_LOOPBACK = {AF_INET: "127.0.0.1", AF_INET6: "::1"}
# What may be set. It changes nothing: the socket is there already.
_OPTIONS = {(SOL_SOCKET, SO_REUSEADDR), (SOL_SOCKET, SO_KEEPALIVE), (IPPROTO_TCP, TCP_NODELAY), (IPPROTO_IPV6, IPV6_V6ONLY)}
# The most that a wait in milliseconds can be.
_LONGEST = (1 << 31) - 1


class gaierror(OSError):
    """A name that is not known here."""


class herror(OSError):
    """The same, of older functions."""


def _refuse(what):
    return OSError(errno.ENOTSUP, f"{_WITHOUT} {what}")


def _named(family, packed, port, flow, scope):
    """An address as Python has it."""
    if family == 4:
        return system.unpack(packed), port
    return system.unpack(packed), port, flow, scope


def _raised(number):
    """The error of this number, with the system's text."""
    return OSError(number, os.strerror(number))


def _looked_up(name):
    """The addresses of a name, packed."""
    try:
        return system.lookup(name.encode("ascii" if name.isascii() else "idna"))
    except OSError as error:
        numbers = {errno.ENOENT: EAI_NONAME, errno.EINVAL: EAI_NONAME, errno.ETIMEDOUT: EAI_AGAIN}
        raise gaierror(numbers.get(error.errno, EAI_FAIL), error.strerror) from None


def _addresses(host, family, is_number=False):
    """The packed addresses of this family, or of both, that a host has which is written in numbers, is this one, or has a name."""
    host = host.decode() if isinstance(host, (bytes, bytearray)) else host
    length = {AF_INET: 4, AF_INET6: 16}.get(family)
    own = {"": _ANY, "localhost": _LOOPBACK}.get(host)
    if own is not None:
        found = [system.pack(address) for address in own.values()]
    elif (packed := system.pack(host)) is not None:
        if length not in (None, len(packed)):
            raise gaierror(EAI_FAMILY, f"{host} is an address of another family")
        return [packed]
    elif is_number:
        raise gaierror(EAI_NONAME, f"{host} is no address in numbers")
    else:
        found = _looked_up(host)
    found = [packed for packed in found if length in (None, len(packed))]
    if not found:
        raise gaierror(EAI_NONAME, f"{host} has no address of this family")
    return found


def _pack(host, family):
    """The first of them."""
    return _addresses(host, family)[0]


def _found():
    """Sockets that were found open and still listen: descriptors, each with its address."""
    count = os.environ.get("LISTEN_FDS", "")
    for descriptor in range(_FIRST, _FIRST + int(count if count.isdecimal() else 0)):
        try:
            own = system.address(descriptor, _OWN)
            system.address(descriptor, _OTHER)
        except OSError as error:
            # One without another side listens. It may be closed, and its number be that of something else.
            if error.errno == errno.ENOTCONN:
                yield descriptor, own


class socket:
    """A socket that listens, or a connection that was accepted or made."""

    # A descriptor of -1 is that of a closed socket.
    __slots__ = ("_descriptor", "_state", "_family", "_limit")

    def __init__(self, family=-1, type=-1, proto=-1, fileno=None):
        self._descriptor = -1
        if type not in (-1, SOCK_STREAM) or proto not in (-1, 0, IPPROTO_TCP):
            raise _refuse("has sockets for connections over TCP alone")
        if fileno is None:
            family = AF_INET if family == -1 else family
            if family not in _ANY:
                raise OSError(errno.EAFNOSUPPORT, f"{_WITHOUT} has no sockets of this family")
            self._state = _FRESH
            self._descriptor = system.reserve()
        else:
            fileno = operator.index(fileno)
            if fileno < 0:
                raise ValueError("negative file descriptor")
            found = AF_INET if system.address(fileno, _OWN)[0] == 4 else AF_INET6
            family = found if family == -1 else family
            self._state = _OPEN
            self._descriptor = fileno
        self._family = int(family)
        self._limit = None
        if _timeout is not None:
            self.settimeout(_timeout)

    def __del__(self):
        descriptor = getattr(self, "_descriptor", -1)
        if descriptor >= 0:
            import warnings

            try:
                warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self)
            finally:
                self._descriptor = -1
                system.close(descriptor)

    def __repr__(self):
        return f"<socket object, fd={self.fileno()}, family={self._family}, type={SOCK_STREAM}, proto={self.proto}>"

    @property
    def family(self):
        return self._family

    @property
    def type(self):
        return SOCK_STREAM

    @property
    def proto(self):
        return 0

    @property
    def timeout(self):
        return self._limit

    def _number(self):
        if self._descriptor < 0:
            raise OSError(errno.EBADF, "Bad file descriptor")
        return self._descriptor

    def _used(self):
        """The number of one that is bound or connected, or being connected."""
        number = self._number()
        if self._state == _FRESH:
            raise OSError(errno.ENOTCONN, "the socket is neither connected nor bound")
        return number

    def fileno(self):
        return self._descriptor

    def detach(self):
        descriptor, self._descriptor = self._descriptor, -1
        return descriptor

    def close(self):
        descriptor = self.detach()
        if descriptor >= 0:
            system.close(descriptor)

    # Waiting.

    def settimeout(self, timeout):
        if timeout is not None:
            timeout = float(timeout)
            if timeout < 0:
                raise ValueError("Timeout value out of range")
        number = self._number()
        if self._state != _FRESH:
            system.set_blocking(number, timeout is None)
        self._limit = timeout

    def gettimeout(self):
        return self._limit

    def setblocking(self, blocking):
        self.settimeout(None if blocking else 0.0)

    def getblocking(self):
        return self._limit != 0

    def _deadline(self):
        return time.monotonic() + self._limit if self._limit else None

    def _wait(self, number, deadline, is_writing):
        """Waits until the socket is ready, until the deadline if there is one."""
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise timeout("timed out")
            if system.wait(number, is_writing, -1 if left is None else min(int(left * 1000) + 1, _LONGEST)):
                return

    def _call(self, deadline, is_writing, function, *arguments):
        """Calls it when the socket is ready for it, as long as that is before the deadline, if there is one."""
        number = self._used()
        while deadline is not None:
            self._wait(number, deadline, is_writing)
            try:
                return function(number, *arguments)
            except BlockingIOError:
                continue
        return function(number, *arguments)

    # A server.

    def bind(self, address):
        number = self._number()
        if self._state != _FRESH:
            raise OSError(errno.EINVAL, "the socket is bound or connected already")
        host, port = address[:2]
        packed = _pack(host, self._family)
        taken = False
        for descriptor, (_, own, its_port, _, _) in _found():
            if own == packed and port in (0, its_port):
                taken = descriptor in _bound
                if not taken:
                    _bound.add(descriptor)
                    self._descriptor, self._state = descriptor, _OPEN
                    system.close(number)
                    if self._limit is not None:
                        system.set_blocking(descriptor, False)
                    return
        at = f"[{host}]:{port}" if self._family == AF_INET6 else f"{host}:{port}"
        if taken:
            raise OSError(errno.EADDRINUSE, f"another socket of this program is bound to {at}")
        raise OSError(
            errno.EADDRNOTAVAIL,
            f"no socket listens at {at}: `MONOHULL_LISTEN` in the step's `env` names the addresses at which this program finds some open",
        )

    def listen(self, backlog=SOMAXCONN):
        system.address(self._used(), _OWN)

    def _accept(self):
        connection = self._call(self._deadline(), False, system.accept)
        try:
            return connection, _named(*system.address(connection, _OTHER))
        except OSError:
            # Its other side is gone already, which the first call for it says.
            return connection, (_ANY[self._family], 0)

    def getsockname(self):
        number = self._number()
        if self._state == _FRESH:
            return (_ANY[self._family], 0) + ((0, 0) if self._family == AF_INET6 else ())
        return _named(*system.address(number, _OWN))

    def getpeername(self):
        return _named(*system.address(self._used(), _OTHER))

    # Connections.

    def _destination(self, address):
        """What `system.connect` takes for an address: packed, port, flow, scope."""
        if not isinstance(address, tuple) or not 2 <= len(address) <= (2 if self._family == AF_INET else 4):
            raise TypeError("connect(): an address is a tuple of host and port, over IPv6 perhaps with flow and scope")
        host, port, flow, scope = address + (0,) * (4 - len(address))
        port = operator.index(port)
        if not 0 <= port <= 65535:
            raise OverflowError("connect(): port must be 0-65535.")
        return _pack(host, self._family), port, flow, scope

    def connect(self, address):
        number, deadline = self._number(), self._deadline()
        if self._state == _OPEN:
            raise _raised(errno.EISCONN)
        if self._state == _FRESH:
            system.connect(number, *self._destination(address))
            self._state = _CONNECTING
            if self._limit == 0:
                raise _raised(errno.EINPROGRESS)
        elif self._limit == 0 and not system.wait(number, True, 0):
            raise _raised(errno.EALREADY)
        self._wait(number, deadline, True)
        failed = system.failure(number)
        self._state = _FRESH if failed else _OPEN
        if failed:
            raise _raised(failed)
        if self._limit is None:
            system.set_blocking(number, True)

    def connect_ex(self, address):
        try:
            self.connect(address)
        except gaierror:
            raise
        except OSError as error:
            # What has timed out here has no number.
            return error.errno or errno.EAGAIN
        return 0

    def recv_into(self, buffer, nbytes=0, flags=0):
        with memoryview(buffer) as view, view.cast("B") as room:
            if nbytes < 0 or nbytes > len(room):
                raise ValueError("the buffer is shorter")
            return self._call(self._deadline(), False, system.recv_into, room[:nbytes or None], flags)

    def recv(self, bufsize, flags=0):
        if bufsize < 0:
            raise ValueError("negative buffersize in recv")
        buffer = bytearray(bufsize)
        return bytes(memoryview(buffer)[:self.recv_into(buffer, 0, flags)])

    def recvfrom(self, bufsize, flags=0):
        return self.recv(bufsize, flags), None

    def recvfrom_into(self, buffer, nbytes=0, flags=0):
        return self.recv_into(buffer, nbytes, flags), None

    def send(self, data, flags=0):
        return self._call(self._deadline(), True, system.send, data, flags)

    def sendall(self, data, flags=0):
        deadline = self._deadline()
        with memoryview(data) as view, view.cast("B") as rest:
            sent = 0
            while sent < len(rest):
                sent += self._call(deadline, True, system.send, rest[sent:], flags)

    def sendto(self, data, *arguments):
        raise _refuse("sends no datagrams")

    def shutdown(self, how):
        system.shutdown(self._used(), how)

    # Options.

    def setsockopt(self, level, option, value, length=None):
        if (level, option) not in _OPTIONS:
            raise OSError(errno.ENOPROTOOPT, f"{_WITHOUT} has no such option of sockets")

    def getsockopt(self, level, option, length=None):
        if (level, option) == (SOL_SOCKET, SO_TYPE):
            return SOCK_STREAM
        if (level, option) in _OPTIONS:
            return 0
        if (level, option) == (SOL_SOCKET, SO_ERROR):
            number = self._number()
            failed = 0 if self._state == _FRESH else system.failure(number)
            if failed and self._state == _CONNECTING:
                self._state = _FRESH
            return failed
        raise OSError(errno.ENOPROTOOPT, f"{_WITHOUT} has no such option of sockets")


SocketType = socket


def close(descriptor):
    system.close(descriptor)


def dup(descriptor):
    raise _refuse("has one number for each socket")


def socketpair(*arguments):
    raise _refuse("has no pairs of sockets")


def getdefaulttimeout():
    return _timeout


def setdefaulttimeout(timeout):
    global _timeout
    if timeout is not None:
        timeout = float(timeout)
        if timeout < 0:
            raise ValueError("Timeout value out of range")
    _timeout = timeout


# Names: those of this host, addresses that are written in numbers, and what the workflow's `network` lets the program look up.


def gethostname():
    return "localhost"


def gethostbyname(name):
    return system.unpack(_pack(name, AF_INET))


def gethostbyname_ex(name):
    return name, [], [system.unpack(packed) for packed in _addresses(name, AF_INET)]


def gethostbyaddr(address):
    raise herror(1, f"{_WITHOUT} looks up no names of addresses: {address}")


def getservbyname(name, protocol=None):
    raise OSError(f"{_WITHOUT} knows no services by name: {name}")


def getnameinfo(address, flags):
    packed = system.pack(address[0])
    if packed is None:
        raise gaierror(EAI_NONAME, f"{address[0]} is no address in numbers")
    return system.unpack(packed), str(address[1])


def getaddrinfo(host, port, family=0, type=0, proto=0, flags=0):
    if isinstance(port, (bytes, str)):
        if not port.isdigit():
            raise gaierror(EAI_SERVICE, f"{_WITHOUT} knows no services by name: {port}")
        port = int(port)
    if family != AF_UNSPEC and family not in _ANY:
        raise gaierror(EAI_FAMILY, f"{_WITHOUT} has no sockets of this family")
    if host is None:
        host = "" if flags & AI_PASSIVE else "localhost"
    kind = type or SOCK_STREAM
    proto = proto or (IPPROTO_TCP if kind == SOCK_STREAM else IPPROTO_UDP)
    found = []
    for packed in _addresses(host, family, flags & AI_NUMERICHOST):
        text, port = system.unpack(packed), port or 0
        one, address = (AF_INET, (text, port)) if len(packed) == 4 else (AF_INET6, (text, port, 0, 0))
        found.append((one, kind, proto, "", address))
    return found


def inet_pton(family, text):
    packed = system.pack(text)
    if packed is None or len(packed) != {AF_INET: 4, AF_INET6: 16}.get(family):
        raise OSError("illegal IP address string passed to inet_pton")
    return packed


def inet_ntop(family, packed):
    if len(packed) != {AF_INET: 4, AF_INET6: 16}.get(family):
        raise ValueError("invalid length of packed IP address string")
    return system.unpack(packed)


def inet_aton(text):
    packed = system.pack(text)
    if packed is None or len(packed) != 4:
        raise OSError("illegal IP address string passed to inet_aton")
    return packed


def inet_ntoa(packed):
    if len(packed) != 4:
        raise OSError("packed IP wrong length")
    return system.unpack(packed)


def htons(number):
    return (number & 0xFF) << 8 | number >> 8


def htonl(number):
    return int.from_bytes(number.to_bytes(4, "little"))


ntohs, ntohl = htons, htonl
