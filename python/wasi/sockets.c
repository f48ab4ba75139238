/* `_monohull_sockets`: the functions of WASI preview 1 for sockets, and an import that says where a socket is. `sockets.py` makes the module `_socket` of it.
 *
 * Errors are those of the system, as `OSError` with its number.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "monohull-wasi.h"

static PyObject *none_or_error(int failed) {
    if (failed) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *number_or_error(Py_ssize_t number) {
    return number < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromSsize_t(number);
}

/* `accept(descriptor)`: that of the connection. */
static PyObject *sockets_accept(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, connection;
    if (!PyArg_ParseTuple(arguments, "i", &descriptor)) return NULL;
    Py_BEGIN_ALLOW_THREADS
    connection = accept(descriptor, NULL, NULL);
    Py_END_ALLOW_THREADS
    return number_or_error(connection);
}

/* `recv_into(descriptor, buffer, flags)`: how many bytes came. */
static PyObject *sockets_recv_into(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, flags;
    Py_buffer to;
    if (!PyArg_ParseTuple(arguments, "iw*i", &descriptor, &to, &flags)) return NULL;
    ssize_t length;
    Py_BEGIN_ALLOW_THREADS
    length = recv(descriptor, to.buf, (size_t)to.len, flags);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&to);
    return number_or_error(length);
}

/* `send(descriptor, bytes, flags)`: how many there was room for. */
static PyObject *sockets_send(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, flags;
    Py_buffer bytes;
    if (!PyArg_ParseTuple(arguments, "iy*i", &descriptor, &bytes, &flags)) return NULL;
    ssize_t length;
    Py_BEGIN_ALLOW_THREADS
    length = send(descriptor, bytes.buf, (size_t)bytes.len, flags);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&bytes);
    return number_or_error(length);
}

/* `shutdown(descriptor, how)`: 0 reading, 1 writing, 2 both. */
static PyObject *sockets_shutdown(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, how;
    if (!PyArg_ParseTuple(arguments, "ii", &descriptor, &how)) return NULL;
    if (how < 0 || how > 2) {
        errno = EINVAL;
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    static const int directions[] = {SHUT_RD, SHUT_WR, SHUT_RDWR};
    return none_or_error(shutdown(descriptor, directions[how]) < 0);
}

static PyObject *sockets_close(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor;
    if (!PyArg_ParseTuple(arguments, "i", &descriptor)) return NULL;
    return none_or_error(close(descriptor) < 0);
}

/* `set_blocking(descriptor, blocking)` */
static PyObject *sockets_set_blocking(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, blocking;
    if (!PyArg_ParseTuple(arguments, "ip", &descriptor, &blocking)) return NULL;
    int flags = fcntl(descriptor, F_GETFL);
    if (flags >= 0) flags = fcntl(descriptor, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
    return none_or_error(flags < 0);
}

/* `wait(descriptor, writing, milliseconds)`: whether it is ready. */
static PyObject *sockets_wait(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, writing, milliseconds, ready;
    if (!PyArg_ParseTuple(arguments, "ipi", &descriptor, &writing, &milliseconds)) return NULL;
    struct pollfd polled = {.fd = descriptor, .events = writing ? POLLOUT : POLLIN};
    Py_BEGIN_ALLOW_THREADS
    ready = poll(&polled, 1, milliseconds);
    Py_END_ALLOW_THREADS
    return ready < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyBool_FromLong(ready);
}

/* `address(descriptor, end)`: 4 or 6, the packed address, port, flow, scope. */
static PyObject *sockets_address(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, end;
    if (!PyArg_ParseTuple(arguments, "ii", &descriptor, &end)) return NULL;
    struct monohull_socket_address at;
    errno = monohull_socket_address(descriptor, end, &at);
    if (errno) return PyErr_SetFromErrno(PyExc_OSError);
    Py_ssize_t length = at.family == 4 ? 4 : 16;
    return Py_BuildValue("Iy#III", at.family, (const char *)at.address, length, at.port, at.flow, at.scope);
}

/* `pack(text)`: the bytes of an address that is written in numbers, 4 or 16; None of anything else. */
static PyObject *sockets_pack(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *text;
    if (!PyArg_ParseTuple(arguments, "s", &text)) return NULL;
    char packed[16];
    if (inet_pton(AF_INET, text, packed) == 1) return PyBytes_FromStringAndSize(packed, 4);
    if (inet_pton(AF_INET6, text, packed) == 1) return PyBytes_FromStringAndSize(packed, 16);
    Py_RETURN_NONE;
}

/* `unpack(bytes)`: the text of 4 or 16. */
static PyObject *sockets_unpack(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer packed;
    char text[64];
    if (!PyArg_ParseTuple(arguments, "y*", &packed)) return NULL;
    Py_ssize_t length = packed.len;
    if (length == 4 || length == 16) inet_ntop(length == 4 ? AF_INET : AF_INET6, packed.buf, text, sizeof text);
    PyBuffer_Release(&packed);
    if (length == 4 || length == 16) return PyUnicode_FromString(text);
    PyErr_SetString(PyExc_ValueError, "an address has 4 or 16 bytes");
    return NULL;
}

static PyMethodDef functions[] = {
    {"accept", sockets_accept, METH_VARARGS, NULL},
    {"recv_into", sockets_recv_into, METH_VARARGS, NULL},
    {"send", sockets_send, METH_VARARGS, NULL},
    {"shutdown", sockets_shutdown, METH_VARARGS, NULL},
    {"close", sockets_close, METH_VARARGS, NULL},
    {"set_blocking", sockets_set_blocking, METH_VARARGS, NULL},
    {"wait", sockets_wait, METH_VARARGS, NULL},
    {"address", sockets_address, METH_VARARGS, NULL},
    {"pack", sockets_pack, METH_VARARGS, NULL},
    {"unpack", sockets_unpack, METH_VARARGS, NULL},
    {0},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_monohull_sockets", .m_size = 0, .m_methods = functions};

PyMODINIT_FUNC PyInit__monohull_sockets(void) {
    return PyModuleDef_Init(&definition);
}
