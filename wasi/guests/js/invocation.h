/* Functions of the module `monohull` about the invocation: events, save points, effects. */
#ifndef INVOCATION_H
#define INVOCATION_H

#include "quickjs.h"

extern const JSCFunctionListEntry invocation_functions[];
extern const int invocation_function_count;

#endif
