/* What the interpreter asks of where it runs: an image of its own (`native.c`), or a WebAssembly program (`wasi/host.c`). */
#include <Python.h>

/* The program's archive (`pack.py`), which `monohull build` puts behind the interpreter: its length, 0 if there is none, and a part of it, which has a
 * buffer. */
size_t program_length(void);
PyObject *program_part(size_t at, size_t length);

/* Random bytes that instances of one template may have in common. -1 if there are none, with the reason in `errno`. */
int common_random(void *bytes, size_t length);

/* How deep C may call itself. */
int recursion_levels(void);
