/* The interpreter in an image of its own.
 *
 *   the image    interpreter | standard library, frozen | archive of the program, or nothing
 *
 * The library and the program are the image's read-only parts, so nothing is read from a file, and nothing is copied.
 */
#include "start.h"
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>

/* How deep C may call itself: each level is accounted for with so many bytes of the stack, which the workflow limits. */
#define LEVEL 1024
#define LEVELS 10000

/* The linker's: a segment of its own behind everything else, whose file part `monohull build` replaces. It begins with the length of what
 * follows. */
extern const unsigned char monohull_program[];

size_t program_length(void) {
    size_t length;
    memcpy(&length, monohull_program, sizeof length);
    return length;
}

PyObject *program_part(size_t at, size_t length) {
    size_t whole = program_length();
    if (at > whole || length > whole - at) {
        PyErr_SetString(PyExc_ValueError, "the program's archive is shorter");
        return NULL;
    }
    return PyMemoryView_FromMemory((char *)monohull_program + 8 + at, (Py_ssize_t)length, PyBUF_READ);
}

int common_random(void *bytes, size_t length) {
    return getrandom(bytes, length, GRND_INSECURE) == (ssize_t)length ? 0 : -1;
}

int recursion_levels(void) {
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) == 0 && stack.rlim_cur / LEVEL < LEVELS) return (int)(stack.rlim_cur / LEVEL);
    return LEVELS;
}
