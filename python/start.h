/* What the image holds besides the interpreter. */
#include <stddef.h>

/* The program's archive (`pack.py`), which `monohull build` puts behind the interpreter. */
const unsigned char *program_archive(void);
size_t program_length(void);
