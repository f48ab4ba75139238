/* What prints lines: `console`, and `print`, which takes texts. */
#ifndef CONSOLE_H
#define CONSOLE_H

#include "quickjs.h"

/* Makes both globals. */
void add_console(JSContext *ctx);

#endif
