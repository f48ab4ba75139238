/* `_monohull`: slots, events, the instance and its invocation for Python, over `function/include/monohull.h`. `monohull.py` is what programs import.
 *
 * A `Buffer` owns memory of a slot and exports it by Python's buffer protocol, so a `memoryview` of it is the slot itself. It counts
 * its views: the memory leaves for a slot only when there is none.
 */
#define PY_SSIZE_T_CLEAN
#include "start.h"
#include "monohull.h"

typedef struct {
    PyObject_HEAD
    monohull_buffer memory;
    Py_ssize_t views;
    int writable;
} Buffer;

/* `monohull.Error`, with the attribute `number`. */
static PyObject *Error;

/* Raises what an error number means. */
static PyObject *raise_error(int number) {
    char text[512];
    size_t length = monohull_last_error(text, sizeof text);
    if (length > sizeof text) length = sizeof text;
    if (number == MONOHULL_OUT_OF_MEMORY) return PyErr_NoMemory();
    PyObject *message = length ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace") : PyUnicode_FromFormat("error %d", -number);
    if (message == NULL) return NULL;
    PyObject *kind = number == MONOHULL_TIMED_OUT ? PyExc_TimeoutError : Error;
    PyObject *value = PyObject_CallOneArg(kind, message);
    Py_DECREF(message);
    PyObject *attribute = value ? PyLong_FromLong(-number) : NULL;
    if (attribute && PyObject_SetAttrString(value, "number", attribute) == 0) PyErr_SetObject(kind, value);
    Py_XDECREF(attribute);
    Py_XDECREF(value);
    return NULL;
}

/* What a call returns that has no value. */
static PyObject *none_or_error(int done) {
    if (done < 0) return raise_error(done);
    Py_RETURN_NONE;
}

static void buffer_dealloc(PyObject *object) {
    Buffer *self = (Buffer *)object;
    if (self->memory.data) monohull_discard(&self->memory);
    Py_TYPE(object)->tp_free(object);
}

/* A view of the bytes in use; of a buffer that was made, of all there is room for. */
static int buffer_get(PyObject *object, Py_buffer *view, int flags) {
    Buffer *self = (Buffer *)object;
    if (self->memory.data == NULL) {
        PyErr_SetString(PyExc_ValueError, "the buffer has been put into a slot");
        return -1;
    }
    if (PyBuffer_FillInfo(view, object, self->memory.data, (Py_ssize_t)self->memory.len, !self->writable, flags) < 0) return -1;
    self->views++;
    return 0;
}

static void buffer_release(PyObject *object, Py_buffer *view) {
    (void)view;
    ((Buffer *)object)->views--;
}

static PyBufferProcs buffer_procs = {buffer_get, buffer_release};

static PyTypeObject BufferType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "_monohull.Buffer",
    .tp_basicsize = sizeof(Buffer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_dealloc = buffer_dealloc,
    .tp_as_buffer = &buffer_procs,
};

/* An object for memory that this instance now owns. */
static PyObject *own(monohull_buffer *memory, int writable) {
    Buffer *self = PyObject_New(Buffer, &BufferType);
    if (self == NULL) {
        monohull_discard(memory);
        return NULL;
    }
    self->memory = *memory;
    self->views = 0;
    self->writable = writable;
    return (PyObject *)self;
}

/* `take(slot, wait, writable)` */
static PyObject *take(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *slot;
    int wait, writable, done;
    if (!PyArg_ParseTuple(arguments, "spp", &slot, &wait, &writable)) return NULL;
    monohull_buffer memory;
    Py_BEGIN_ALLOW_THREADS
    done = wait ? monohull_take(slot, &memory) : monohull_try_take(slot, &memory);
    if (done == 0 && writable) {
        done = monohull_will_write(&memory);
        if (done < 0) monohull_discard(&memory);
    }
    Py_END_ALLOW_THREADS
    return done < 0 ? raise_error(done) : own(&memory, writable);
}

/* `event(name, nanoseconds)` */
static PyObject *event(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *name;
    unsigned long long timeout;
    if (!PyArg_ParseTuple(arguments, "sK", &name, &timeout)) return NULL;
    monohull_buffer memory;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = monohull_event(name, timeout, &memory);
    Py_END_ALLOW_THREADS
    if (done < 0) return raise_error(done);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)memory.data, (Py_ssize_t)memory.len);
    monohull_discard(&memory);
    return bytes;
}

/* `first_of(names, nanoseconds)`, with line breaks between the names: which of them, from 0, and the event's bytes. */
static PyObject *first_of(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *names;
    unsigned long long timeout;
    if (!PyArg_ParseTuple(arguments, "sK", &names, &timeout)) return NULL;
    monohull_buffer memory;
    int which;
    Py_BEGIN_ALLOW_THREADS
    which = monohull_first_of(names, timeout, &memory);
    Py_END_ALLOW_THREADS
    if (which < 0) return raise_error(which);
    PyObject *event = Py_BuildValue("iy#", which, memory.data == NULL ? "" : (const char *)memory.data, (Py_ssize_t)memory.len);
    monohull_discard(&memory);
    return event;
}

/* `perform(effect, request)`: whether the handler has failed, and the reply or the reason. */
static PyObject *perform(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *effect;
    Py_buffer request;
    if (!PyArg_ParseTuple(arguments, "sy*", &effect, &request)) return NULL;
    monohull_buffer memory;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = monohull_perform(effect, request.buf, (size_t)request.len, &memory);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&request);
    if (done < 0) return raise_error(done);
    PyObject *reply = own(&memory, 0);
    return reply ? Py_BuildValue("iN", done, reply) : NULL;
}

/* A continuation is a capsule of this name, whose pointer is the token. One that was used, handed on or discarded has the second name. */
#define CONTINUATION "monohull.Continuation"
#define GONE "monohull.Continuation, gone"

static void drop_continuation(PyObject *capsule) {
    if (!PyCapsule_IsValid(capsule, CONTINUATION)) return;
    monohull_continuation owned = {(uintptr_t)PyCapsule_GetPointer(capsule, CONTINUATION)};
    monohull_drop_continuation(&owned, 0);
}

/* Takes the continuation out of its capsule, so that no other thread finds it meanwhile; -1 with an exception. */
static int open_capsule(PyObject *capsule, monohull_continuation *owned) {
    if (PyCapsule_IsValid(capsule, GONE)) {
        PyErr_SetString(PyExc_ValueError, "the continuation has been used, handed on or discarded");
        return -1;
    }
    owned->token = (uintptr_t)PyCapsule_GetPointer(capsule, CONTINUATION);
    return owned->token == 0 ? -1 : PyCapsule_SetName(capsule, GONE);
}

/* What a call returns that was given the continuation; after an error it is in its capsule again. */
static PyObject *close_capsule(PyObject *capsule, int done) {
    if (done < 0 && PyCapsule_SetName(capsule, CONTINUATION) < 0) return NULL;
    return none_or_error(done);
}

/* `call_cc(slot)` */
static PyObject *call_cc(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *slot;
    if (!PyArg_ParseTuple(arguments, "s", &slot)) return NULL;
    monohull_buffer memory;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = monohull_call_cc(slot, &memory);
    Py_END_ALLOW_THREADS
    return done < 0 ? raise_error(done) : own(&memory, 0);
}

/* `take_continuation(slot, wait)`: a capsule. */
static PyObject *take_continuation(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *slot;
    int wait, done;
    if (!PyArg_ParseTuple(arguments, "sp", &slot, &wait)) return NULL;
    monohull_continuation taken;
    Py_BEGIN_ALLOW_THREADS
    done = wait ? monohull_take_continuation(slot, &taken) : monohull_try_take_continuation(slot, &taken);
    Py_END_ALLOW_THREADS
    if (done < 0) return raise_error(done);
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)taken.token, CONTINUATION, drop_continuation);
    if (capsule == NULL) monohull_drop_continuation(&taken, 0);
    return capsule;
}

/* `publish_continuation(continuation, slot)` */
static PyObject *publish_continuation(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *capsule;
    const char *slot;
    monohull_continuation owned;
    if (!PyArg_ParseTuple(arguments, "Os", &capsule, &slot) || open_capsule(capsule, &owned) < 0) return NULL;
    return close_capsule(capsule, monohull_publish_continuation(slot, &owned));
}

/* `resume(continuation, value)` */
static PyObject *resume(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *capsule;
    Py_buffer value;
    monohull_continuation owned;
    if (!PyArg_ParseTuple(arguments, "Oy*", &capsule, &value)) return NULL;
    PyObject *used = NULL;
    if (open_capsule(capsule, &owned) == 0)
        used = close_capsule(capsule, monohull_resume_continuation(&owned, value.buf, (size_t)value.len));
    PyBuffer_Release(&value);
    return used;
}

/* `discard(continuation)` */
static PyObject *discard(PyObject *module, PyObject *capsule) {
    (void)module;
    monohull_continuation owned;
    if (open_capsule(capsule, &owned) < 0) return NULL;
    monohull_drop_continuation(&owned, 1);
    Py_RETURN_NONE;
}

/* `state(name, text)` */
static PyObject *state(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *name, *text;
    if (!PyArg_ParseTuple(arguments, "ss", &name, &text)) return NULL;
    int done = monohull_state(name, text);
    return none_or_error(done);
}

/* `handed_over(name)`: bytes */
static PyObject *handed_over(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *name;
    if (!PyArg_ParseTuple(arguments, "s", &name)) return NULL;
    monohull_buffer memory;
    int done = monohull_handed_over(name, &memory);
    if (done < 0) return raise_error(done);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)memory.data, (Py_ssize_t)memory.len);
    monohull_discard(&memory);
    return bytes;
}

/* `send(invocation, name, data)` */
static PyObject *send_event(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *invocation, *name;
    Py_buffer data;
    if (!PyArg_ParseTuple(arguments, "ssy*", &invocation, &name, &data)) return NULL;
    int done = monohull_send(invocation, name, data.buf, (size_t)data.len);
    PyBuffer_Release(&data);
    return none_or_error(done);
}

/* `start_child(workflow, id, input, detached)` */
static PyObject *start_child(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *workflow, *id;
    Py_buffer input;
    int detached;
    if (!PyArg_ParseTuple(arguments, "ssy*p", &workflow, &id, &input, &detached)) return NULL;
    int done = monohull_start_child(workflow, id, input.buf, (size_t)input.len, detached);
    PyBuffer_Release(&input);
    return none_or_error(done);
}

/* `join(id, nanoseconds)`: how the child has ended, and what is told of it, for `child_output`. */
static PyObject *join(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *id;
    unsigned long long timeout;
    if (!PyArg_ParseTuple(arguments, "sK", &id, &timeout)) return NULL;
    monohull_buffer memory;
    int ending;
    Py_BEGIN_ALLOW_THREADS
    ending = monohull_join(id, timeout, &memory);
    Py_END_ALLOW_THREADS
    if (ending < 0) {
        PyObject *error = raise_error(ending);
        if (memory.data) monohull_discard(&memory);
        return error;
    }
    PyObject *end = own(&memory, 0);
    return end ? Py_BuildValue("iN", ending, end) : NULL;
}

/* `child_output(end, slot)`: bytes, or None if the child has no such output. Without a slot: why it has failed. */
static PyObject *child_output(PyObject *module, PyObject *arguments) {
    (void)module;
    Buffer *end;
    const char *slot;
    if (!PyArg_ParseTuple(arguments, "O!z", &BufferType, &end, &slot)) return NULL;
    const uint8_t *data;
    size_t length;
    if (monohull_child_output(&end->memory, slot, &data, &length) < 0) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)length);
}

/* `cancel_child(id)` */
static PyObject *cancel_child(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *id;
    if (!PyArg_ParseTuple(arguments, "s", &id)) return NULL;
    int done = monohull_cancel_child(id);
    return none_or_error(done);
}

/* `checkpoint(label)`: whether it has come back. */
static PyObject *checkpoint(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *label;
    if (!PyArg_ParseTuple(arguments, "s", &label)) return NULL;
    int came;
    Py_BEGIN_ALLOW_THREADS
    came = monohull_checkpoint(label);
    Py_END_ALLOW_THREADS
    return came < 0 ? raise_error(came) : PyBool_FromLong(came);
}

/* `fork(copies)`: which copy this is, from 1; 0 in the original. */
static PyObject *fork_invocation(PyObject *module, PyObject *arguments) {
    (void)module;
    int copies;
    if (!PyArg_ParseTuple(arguments, "i", &copies)) return NULL;
    int number;
    Py_BEGIN_ALLOW_THREADS
    /* No copies are refused as well. */
    number = monohull_fork(copies < 0 ? 0 : (uint32_t)copies);
    Py_END_ALLOW_THREADS
    return number < 0 ? raise_error(number) : PyLong_FromLong(number);
}

/* `make(bytes)` */
static PyObject *make(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(arguments, "n", &bytes)) return NULL;
    if (bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a buffer has no negative length");
        return NULL;
    }
    monohull_buffer memory;
    int done = monohull_make((size_t)bytes, &memory);
    if (done < 0) return raise_error(done);
    memory.len = (size_t)bytes;
    return own(&memory, 1);
}

/* Fills a slot with a copy. */
static PyObject *publish_copy(const char *slot, const void *bytes, size_t length) {
    monohull_buffer memory;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = monohull_make(length, &memory);
    if (done == 0) {
        memcpy(memory.data, bytes, length);
        memory.len = length;
        done = monohull_publish(slot, &memory);
        if (done < 0) monohull_discard(&memory);
    }
    Py_END_ALLOW_THREADS
    return none_or_error(done);
}

/* Fills a slot with the first `length` bytes of a buffer, of which there is no view. */
static PyObject *publish_own(const char *slot, Buffer *owner, size_t length) {
    monohull_buffer memory = owner->memory;
    /* No other thread may find it meanwhile. */
    owner->memory.data = NULL;
    memory.len = length;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = monohull_publish(slot, &memory);
    if (done < 0) monohull_discard(&memory);
    Py_END_ALLOW_THREADS
    return none_or_error(done);
}

/* `put(slot, data)`: a view of a slot's memory is released, and if it was the only one and begins where the memory does, the memory goes to
 * the slot as it is. Everything else is copied. */
static PyObject *put(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *slot;
    PyObject *data;
    if (!PyArg_ParseTuple(arguments, "sO", &slot, &data)) return NULL;
    Py_buffer view;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0) return NULL;
    PyObject *owner = PyMemoryView_Check(data) ? PyMemoryView_GET_BUFFER(data)->obj : NULL;
    if (owner == NULL || Py_TYPE(owner) != &BufferType) {
        PyObject *done = publish_copy(slot, view.buf, (size_t)view.len);
        PyBuffer_Release(&view);
        return done;
    }
    Buffer *buffer = (Buffer *)Py_NewRef(owner);
    /* The memory stays: other views of it keep it, or nothing has taken it before this function does. */
    const unsigned char *bytes = view.buf;
    size_t length = (size_t)view.len;
    PyBuffer_Release(&view);
    PyObject *done = PyObject_CallMethod(data, "release", NULL);
    if (done != NULL) {
        Py_DECREF(done);
        if (buffer->views == 0 && bytes == buffer->memory.data)
            done = publish_own(slot, buffer, length);
        else
            done = publish_copy(slot, bytes, length);
    }
    Py_DECREF(buffer);
    return done;
}

static PyObject *instance(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return Py_BuildValue("KKK", (unsigned long long)monohull_instance_index(), (unsigned long long)monohull_instance_count(),
                         (unsigned long long)monohull_attempt());
}

/* CPython's: what the end of a program does instead of taking the interpreter apart, if there is something (`xtask/src/python/settings.rs`). */
extern void (*monohull_leave)(void);
extern void _PyModule_Clear(PyObject *module);

/* Writes what buffers of files hold. */
static PyObject *flush;

/* The end of a program that was ready: threads and `atexit` are done. Variables of the program go, and cycles that were made since; so objects have
 * their finalizers called, and files are closed. What modules hold is left as it is, but for the buffers of files. */
static void leave(void) {
    PyObject *names = PyImport_GetModuleDict();
    PyObject *program = names ? PyDict_GetItemString(names, "__main__") : NULL;
    if (program && PyModule_Check(program)) {
        Py_INCREF(program);
        _PyModule_Clear(program);
        Py_DECREF(program);
    }
    PyGC_Collect();
    PyObject *done = PyObject_CallNoArgs(flush);
    if (done == NULL) PyErr_WriteUnraisable(flush);
    Py_XDECREF(done);
}

/* `invocation()`: its id, the name of this instance's step, how often it has gone on from a checkpoint */
static PyObject *invocation(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    char id[256], step[256];
    monohull_invocation_id(id, sizeof id);
    monohull_step_name(step, sizeof step);
    return Py_BuildValue("ssK", id, step, (unsigned long long)monohull_generation());
}

/* `fail(is_permanent, why)`, with the text as bytes without a zero: does not return */
static PyObject *fail(PyObject *module, PyObject *arguments) {
    (void)module;
    int is_permanent;
    const char *why;
    if (!PyArg_ParseTuple(arguments, "py", &is_permanent, &why)) return NULL;
    monohull_fail(is_permanent, why);
}

/* `ready(flush)`: whether this instance has started here, from a template. */
static PyObject *ready(PyObject *module, PyObject *function) {
    (void)module;
    Py_XSETREF(flush, Py_NewRef(function));
    monohull_leave = leave;
    return PyBool_FromLong(monohull_ready());
}

/* `common_random(bytes)`: random bytes that instances of one template may have in common. */
static PyObject *draw_common(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_ssize_t length;
    if (!PyArg_ParseTuple(arguments, "n", &length)) return NULL;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, length);
    if (bytes && common_random(PyBytes_AS_STRING(bytes), (size_t)length) < 0) {
        Py_CLEAR(bytes);
        PyErr_SetFromErrno(PyExc_OSError);
    }
    return bytes;
}

/* How long the program's archive is; 0 if this is the interpreter alone. */
static PyObject *archive_length(PyObject *module, PyObject *none) {
    (void)module, (void)none;
    return PyLong_FromSize_t(program_length());
}

/* `archive(at, length)`: a part of it. */
static PyObject *archive(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_ssize_t at, length;
    if (!PyArg_ParseTuple(arguments, "nn", &at, &length)) return NULL;
    return program_part((size_t)at, (size_t)length);
}

static PyMethodDef methods[] = {
    {"take", take, METH_VARARGS, NULL},
    {"event", event, METH_VARARGS, NULL},
    {"first_of", first_of, METH_VARARGS, NULL},
    {"perform", perform, METH_VARARGS, NULL},
    {"call_cc", call_cc, METH_VARARGS, NULL},
    {"take_continuation", take_continuation, METH_VARARGS, NULL},
    {"publish_continuation", publish_continuation, METH_VARARGS, NULL},
    {"resume", resume, METH_VARARGS, NULL},
    {"discard", discard, METH_O, NULL},
    {"state", state, METH_VARARGS, NULL},
    {"handed_over", handed_over, METH_VARARGS, NULL},
    {"send", send_event, METH_VARARGS, NULL},
    {"start_child", start_child, METH_VARARGS, NULL},
    {"join", join, METH_VARARGS, NULL},
    {"child_output", child_output, METH_VARARGS, NULL},
    {"cancel_child", cancel_child, METH_VARARGS, NULL},
    {"checkpoint", checkpoint, METH_VARARGS, NULL},
    {"fork", fork_invocation, METH_VARARGS, NULL},
    {"make", make, METH_VARARGS, NULL},
    {"put", put, METH_VARARGS, NULL},
    {"instance", instance, METH_NOARGS, NULL},
    {"invocation", invocation, METH_NOARGS, NULL},
    {"fail", fail, METH_VARARGS, NULL},
    {"ready", ready, METH_O, NULL},
    {"common_random", draw_common, METH_VARARGS, NULL},
    {"archive_length", archive_length, METH_NOARGS, NULL},
    {"archive", archive, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "_monohull", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit__monohull(void) {
    if (PyType_Ready(&BufferType) < 0) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    Error = PyErr_NewException("monohull.Error", NULL, NULL);
    if (Error == NULL || PyModule_AddObjectRef(module, "Error", Error) < 0 ||
        PyModule_AddIntConstant(module, "NOT_FOUND", -MONOHULL_NOT_FOUND) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
