"""The module `_socket` where there are no sockets: programs that import one and do not use it work, and what would open one is an error that says so."""

import errno

AF_UNSPEC, AF_INET, AF_INET6 = 0, 2, 10
SOCK_STREAM, SOCK_DGRAM = 1, 2
IPPROTO_IP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IPV6 = 0, 6, 17, 41
SOL_SOCKET, SO_REUSEADDR, SO_ERROR, SO_BROADCAST, SO_KEEPALIVE = 1, 2, 4, 6, 9
TCP_NODELAY, IPV6_V6ONLY = 1, 26
SHUT_RD, SHUT_WR, SHUT_RDWR = 0, 1, 2
MSG_OOB, MSG_PEEK = 1, 2
AI_PASSIVE, AI_CANONNAME, AI_NUMERICHOST = 1, 2, 4
EAI_NONAME = -2
NI_NUMERICHOST, NI_NUMERICSERV = 1, 2
SOMAXCONN = 128
INADDR_ANY = 0
has_ipv6 = False
CAPI = None

error = OSError
timeout = TimeoutError
_timeout = None


class gaierror(OSError):
    """No name is looked up."""


class herror(OSError):
    """The same, of older functions."""


def _refuse(*arguments, **named):
    raise OSError(errno.ENOTSUP, "Python that is built for WebAssembly has no sockets")


class socket:
    """What cannot be opened."""

    __slots__ = ()

    __init__ = _refuse
    family = type = proto = timeout = None

    def fileno(self):
        return -1

    def close(self):
        pass


SocketType = socket
getaddrinfo = gethostbyname = gethostbyname_ex = gethostbyaddr = getnameinfo = gethostname = socketpair = getservbyname = _refuse


def getdefaulttimeout():
    return _timeout


def setdefaulttimeout(timeout):
    global _timeout
    _timeout = timeout


def close(descriptor):
    _refuse()


def htons(number):
    return (number & 0xFF) << 8 | number >> 8


def htonl(number):
    return int.from_bytes(number.to_bytes(4, "little"))


ntohs, ntohl = htons, htonl


def inet_aton(text):
    parts = text.split(".")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts):
        raise OSError("illegal IP address string passed to inet_aton")
    return bytes(map(int, parts))


def inet_ntoa(packed):
    if len(packed) != 4:
        raise OSError("packed IP wrong length")
    return ".".join(map(str, packed))
