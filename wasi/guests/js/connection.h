/* Functions of the module `monohull` for connections over TCP, to what the workflow's `network` grants. */
#ifndef CONNECTION_H
#define CONNECTION_H

#include "quickjs.h"

extern const JSCFunctionListEntry connection_functions[];
extern const int connection_function_count;

#endif
