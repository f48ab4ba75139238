/* QuickJS compares the address of its frame with a limit. In WebAssembly that address is one of a stack in memory, of which most functions use
 * little; what ends is the stack that compiled code uses. Included before each of its files. */
#ifndef STACK_H
#define STACK_H

#include <stdint.h>

/* Bytes that are left of it: less, the deeper, as an address is. */
uint32_t monohull_stack_left(void) __attribute__((import_module("monohull"), import_name("stack_left")));

#define __builtin_frame_address(level) ((void *)(uintptr_t)monohull_stack_left())

#endif
