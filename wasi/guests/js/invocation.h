/* Functions of the module `monohull` about the invocation: events, save points, effects; and how what is refused becomes an exception. */
#ifndef INVOCATION_H
#define INVOCATION_H

#include "quickjs.h"

/* What a call of `monohull.h` has refused, by its number, as an exception; and what a call returns that has no value. */
JSValue refused(JSContext *ctx, int number);
JSValue undefined_or_error(JSContext *ctx, int done);

extern const JSCFunctionListEntry invocation_functions[];
extern const int invocation_function_count;

#endif
