/* The interpreter in a WebAssembly program: what it asks of the system, by the imports of `wasi/include/monohull-wasi.h`.
 *
 *   attachment   library.bin | zeros, up to a page | archive of the program, or nothing
 *
 * The attachment is a part of the image that is outside of the program's memory. Instances share its pages, and what is imported is copied from
 * there. Slots are copied as well. `function/include/monohull.h` has the functions below that `module.c` calls; those for what a WebAssembly program
 * does not have are errors.
 */
#include "start.h"
#include <errno.h>
#include <marshal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* Both headers have these, and they are of other types. */
#define monohull_instance_index imported_index
#define monohull_instance_count imported_count
#define monohull_attempt imported_attempt
#define monohull_ready imported_ready
#include "monohull-wasi.h"
#undef monohull_instance_index
#undef monohull_instance_count
#undef monohull_attempt
#undef monohull_ready
#include "monohull.h"

/* What comes behind the library begins here: its length in whole pages. `freeze.py` knows it. */
extern const uint32_t monohull_library_end;

/* -- The attachment ------------------------------------------------------------------------------------------------------ */

size_t program_length(void) {
    uint32_t length = monohull_attachment_length();
    return length > monohull_library_end ? length - monohull_library_end : 0;
}

PyObject *program_part(size_t at, size_t length) {
    size_t whole = program_length();
    if (at > whole || length > whole - at) {
        PyErr_SetString(PyExc_ValueError, "the program's archive is shorter");
        return NULL;
    }
    PyObject *part = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (part && monohull_attachment_read(monohull_library_end + at, PyBytes_AS_STRING(part), length) != 0)
        Py_CLEAR(part);
    return part ? part : PyErr_NoMemory();
}

/* The code of a frozen module. One of the library has a note of where it is in the attachment in place of its bytecode; no bytecode begins like that. */
PyObject *monohull_unmarshal(const char *data, Py_ssize_t size) {
    if (*data != 1) return PyMarshal_ReadObjectFromString(data, size);
    uint32_t at;
    memcpy(&at, data + 1, sizeof at);
    char *bytecode = PyMem_RawMalloc((size_t)size);
    if (bytecode == NULL) return PyErr_NoMemory();
    PyObject *code = NULL;
    if (monohull_attachment_read(at, bytecode, (size_t)size) == 0)
        code = PyMarshal_ReadObjectFromString(bytecode, size);
    else
        PyErr_SetString(PyExc_ImportError, "the library is not attached");
    PyMem_RawFree(bytecode);
    return code;
}

/* -- The stack ----------------------------------------------------------------------------------------------------------- */

/* What is left for functions that do not ask, and for the exception. */
#define KEPT (96 * 1024)
/* Bytes that a level may take of the compiled code's stack, of which the step's `stack` is the measure. */
#define LEVEL 512
/* The stack in memory, of 2 MiB, has room for so many: it begins at 0 and grows downwards. */
#define LEVELS 4000

int monohull_c_recursion_limit = LEVELS;

int monohull_stack_is_short(void) {
    return monohull_stack_left() < KEPT || (uintptr_t)__builtin_frame_address(0) < KEPT;
}

int recursion_levels(void) {
    uint32_t levels = (monohull_stack_left() - KEPT) / LEVEL;
    return levels < LEVELS ? (int)levels : LEVELS;
}

/* -- Random numbers ------------------------------------------------------------------------------------------------------ */

int common_random(void *bytes, size_t length) {
    errno = monohull_common_random(bytes, length);
    return errno ? -1 : 0;
}

/* -- Slots --------------------------------------------------------------------------------------------------------------- */

/* Why the last call has failed. */
static char explanation[512];

size_t monohull_last_error(char *text, size_t room) {
    size_t length = strlen(explanation);
    memcpy(text, explanation, length < room ? length : room);
    return length;
}

/* The number of `monohull.h` for one of WASI. */
static int number_of(int error) {
    switch (error) {
    case EPERM: case EACCES: return MONOHULL_NOT_PERMITTED;
    case EAGAIN: return MONOHULL_NOT_FOUND;
    case ENOENT: return MONOHULL_NEVER_FILLED;
    case ENOMEM: return MONOHULL_OUT_OF_MEMORY;
    case EBUSY: return MONOHULL_BUSY;
    case EEXIST: return MONOHULL_EXISTS;
    case EMSGSIZE: case EFBIG: return MONOHULL_MESSAGE_TOO_LONG;
    case ENOBUFS: return MONOHULL_TOO_MANY;
    default: return MONOHULL_INVALID;
    }
}

static int failed(const char *what, const char *slot, int error) {
    const char *why = error == ENOENT   ? "no step is left that could fill it"
                      : error == EAGAIN ? "it is empty"
                      : error == EEXIST ? "it is filled already"
                                        : strerror(error);
    snprintf(explanation, sizeof explanation, "%s slot `%.255s`: %s", what, slot, why);
    return number_of(error);
}

int monohull_make(size_t capacity, monohull_buffer *buffer) {
    *buffer = (monohull_buffer){ calloc(capacity ? capacity : 1, 1), 0, capacity };
    if (buffer->data) return 0;
    explanation[0] = 0;
    return MONOHULL_OUT_OF_MEMORY;
}

void monohull_discard(monohull_buffer *buffer) {
    free(buffer->data);
    buffer->data = NULL;
}

static int take(const char *name, int wait, monohull_buffer *buffer) {
    struct monohull_slot slot;
    int error = monohull_slot_take(name, strlen(name), wait, &slot);
    if (error) return failed("take", name, error);
    int made = monohull_make(slot.length, buffer);
    if (made == 0) {
        error = monohull_slot_read(slot.handle, 0, buffer->data, slot.length);
        buffer->len = slot.length;
        if (error) {
            monohull_discard(buffer);
            made = failed("take", name, error);
        }
    }
    monohull_slot_free(slot.handle);
    return made;
}

int monohull_take(const char *slot, monohull_buffer *buffer) {
    return take(slot, 1, buffer);
}

int monohull_try_take(const char *slot, monohull_buffer *buffer) {
    return take(slot, 0, buffer);
}

/* It is the program's copy. */
int monohull_will_write(const monohull_buffer *buffer) {
    (void)buffer;
    return 0;
}

int monohull_publish(const char *slot, monohull_buffer *buffer) {
    int error = monohull_slot_publish(slot, strlen(slot), buffer->data, buffer->len, 0);
    if (error) return failed("publish", slot, error);
    monohull_discard(buffer);
    return 0;
}

/* -- The instance -------------------------------------------------------------------------------------------------------- */

uint64_t monohull_instance_index(void) {
    return imported_index();
}

uint64_t monohull_instance_count(void) {
    return imported_count();
}

uint64_t monohull_attempt(void) {
    return imported_attempt();
}

int monohull_ready(void) {
    return imported_ready();
}

/* -- What there is not --------------------------------------------------------------------------------------------------- */

/* The number of abi.md. */
#define NOT_SUPPORTED (-95)

static int missing(const char *what) {
    snprintf(explanation, sizeof explanation, "a Python program that is built for WebAssembly has no %s", what);
    return NOT_SUPPORTED;
}

int monohull_event(const char *name, uint64_t timeout, monohull_buffer *buffer) {
    (void)name, (void)timeout, (void)buffer;
    return missing("events");
}

int monohull_state(const char *name, const char *text) {
    (void)name, (void)text;
    return missing("texts that are published");
}

int monohull_handed_over(const char *name, monohull_buffer *text) {
    (void)name, (void)text;
    return missing("texts of an earlier version");
}

int monohull_send(const char *invocation, const char *name, const void *data, size_t len) {
    (void)invocation, (void)name, (void)data, (void)len;
    return missing("events for other invocations");
}

int monohull_start_child(const char *workflow, const char *id, const void *input, size_t len, int detached) {
    (void)workflow, (void)id, (void)input, (void)len, (void)detached;
    return missing("children");
}

int monohull_join(const char *id, uint64_t timeout, monohull_buffer *end) {
    (void)id, (void)timeout;
    end->data = NULL;
    return missing("children");
}

int monohull_child_output(const monohull_buffer *end, const char *slot, const uint8_t **data, size_t *len) {
    (void)end, (void)slot, (void)data, (void)len;
    return missing("children");
}

int monohull_cancel_child(const char *id) {
    (void)id;
    return missing("children");
}

int monohull_perform(const char *effect, const void *request, size_t len, monohull_buffer *reply) {
    (void)effect, (void)request, (void)len, (void)reply;
    return missing("effects");
}

int monohull_checkpoint(const char *label) {
    (void)label;
    return missing("save points");
}

int monohull_fork(uint32_t copies) {
    (void)copies;
    return missing("copies of its invocation");
}
