/* `_monohull_sockets`: the functions of WASI preview 1 for sockets, and the imports of `wasi/include/monohull-wasi.h` for connections, names and addresses. `sockets.py`
 * makes the module `_socket` of it.
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
#include <wasi/api.h>
#include "monohull-wasi.h"

static PyObject *none_or_error(int failed) {
    if (failed) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *number_or_error(Py_ssize_t number) {
    return number < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromSsize_t(number);
}

/* An `OSError` with what the runtime says of a connection or a name that it has refused. */
static PyObject *refused(int error) {
    char text[512];
    int length = monohull_wasi_last_error(text, sizeof text);
    if (length > (int)sizeof text) length = sizeof text;
    PyObject *why = length > 0 ? PyUnicode_DecodeUTF8(text, length, "replace") : PyUnicode_FromString(strerror(error));
    if (why == NULL) return NULL;
    PyObject *raised = PyObject_CallFunction(PyExc_OSError, "iN", error, why);
    if (raised) {
        PyErr_SetObject((PyObject *)Py_TYPE(raised), raised);
        Py_DECREF(raised);
    }
    return NULL;
}

/* `reserve()`: a descriptor for a socket that is neither bound nor connected yet. */
static PyObject *sockets_reserve(PyObject *module, PyObject *arguments) {
    (void)module, (void)arguments;
    return number_or_error(open("/dev/null", O_RDWR));
}

/* `connect(descriptor, bytes, port, flow, scope)`: begins a connection to an address of 4 or 16 bytes, whose descriptor becomes this one in place of what it was. */
static PyObject *sockets_connect(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor, connection;
    Py_buffer packed;
    struct monohull_socket_address to = {0};
    if (!PyArg_ParseTuple(arguments, "iy*III", &descriptor, &packed, &to.port, &to.flow, &to.scope)) return NULL;
    to.family = packed.len == 4 ? 4 : 6;
    memcpy(to.address, packed.buf, packed.len < 16 ? (size_t)packed.len : 16);
    PyBuffer_Release(&packed);
    int error = monohull_socket_connect(&to, &connection);
    if (error) return refused(error);
    errno = __wasi_fd_renumber(connection, descriptor);
    if (errno) {
        PyErr_SetFromErrno(PyExc_OSError);
        close(connection);
        return NULL;
    }
    Py_RETURN_NONE;
}

/* `failure(descriptor)`: the number of why a connection has failed, which is told once; 0 if it has not. */
static PyObject *sockets_failure(PyObject *module, PyObject *arguments) {
    (void)module;
    int descriptor;
    if (!PyArg_ParseTuple(arguments, "i", &descriptor)) return NULL;
    return PyLong_FromLong(monohull_socket_failure(descriptor));
}

/* `lookup(name)`: a list of addresses, of 4 or 16 bytes each. */
static PyObject *sockets_lookup(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer name;
    if (!PyArg_ParseTuple(arguments, "y*", &name)) return NULL;
    struct monohull_socket_address addresses[MONOHULL_LOOKUP_MAX];
    uint32_t count = 0;
    int error;
    Py_BEGIN_ALLOW_THREADS
    error = monohull_lookup(name.buf, (size_t)name.len, addresses, MONOHULL_LOOKUP_MAX, &count);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&name);
    if (error) return refused(error);
    PyObject *found = PyList_New((Py_ssize_t)count);
    for (uint32_t at = 0; found && at < count; at++) {
        PyObject *packed = PyBytes_FromStringAndSize((const char *)addresses[at].address, addresses[at].family == 4 ? 4 : 16);
        if (packed)
            PyList_SET_ITEM(found, (Py_ssize_t)at, packed);
        else
            Py_CLEAR(found);
    }
    return found;
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
    {"reserve", sockets_reserve, METH_NOARGS, NULL},
    {"connect", sockets_connect, METH_VARARGS, NULL},
    {"failure", sockets_failure, METH_VARARGS, NULL},
    {"lookup", sockets_lookup, METH_VARARGS, NULL},
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
