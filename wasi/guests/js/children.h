/* Functions of the module `monohull` about invocations of other workflows. */
#ifndef CHILDREN_H
#define CHILDREN_H

#include "quickjs.h"

extern const JSCFunctionListEntry children_functions[];
extern const int children_function_count;

#endif
