/* The interpreter in a WebAssembly program: what it asks of the system, by the imports of `wasi/include/monohull-wasi.h`.
 *
 *   attachment   library.bin | zeros, up to a page | archive of the program, or nothing
 *
 * The attachment is a part of the image that is outside of the program's memory. Instances share its pages, and what is imported is copied from
 * there. The functions of `function/include/monohull.h` that `module.c` calls are those of `wasi/lib/monohull.c`.
 */
#include "start.h"
#include <errno.h>
#include <marshal.h>
#include <stdlib.h>
#include <string.h>
#include "monohull-wasi.h"

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
