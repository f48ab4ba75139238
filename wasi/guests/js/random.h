/* `Math.random`, which QuickJS has by a generator whose state is the same in all copies of the program's memory. */
#ifndef RANDOM_H
#define RANDOM_H

#include "quickjs.h"

/* Puts it into the object `Math`. */
void add_random(JSContext *ctx);

/* To be called behind each call of the host that waits or makes copies: this may be one of several programs that go on from there. */
void forget_random(void);

#endif
