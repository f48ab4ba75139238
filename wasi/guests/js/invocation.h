/* Functions of the module `monohull` about the invocation: events, save points, effects; and how what is refused becomes an exception. */
#ifndef INVOCATION_H
#define INVOCATION_H

#include "quickjs.h"
#include <stdint.h>

/* What a call of `monohull.h` has refused, by its number, as an exception; and what a call returns that has no value. */
JSValue refused(JSContext *ctx, int number);
JSValue undefined_or_error(JSContext *ctx, int done);

/* Seconds as nanoseconds, UINT64_MAX if there are none: 0, or -1 with an exception. */
int get_time(JSContext *ctx, JSValueConst value, uint64_t *time);

extern const JSCFunctionListEntry invocation_functions[];
extern const int invocation_function_count;

#endif
