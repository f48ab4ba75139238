/* Functions of the module `monohull` about continuations as values. */
#ifndef CONTINUATION_H
#define CONTINUATION_H

#include "quickjs.h"

extern const JSCFunctionListEntry continuation_functions[];
extern const int continuation_function_count;

#endif
