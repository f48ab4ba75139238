/* Slots for WebAssembly programs in C and C++: what Monohull's runtime offers in the module `monohull` beside WASI preview 1.
 *
 *     clang --target=wasm32-wasi -O2 -I wasi/include app.c -o app.wasm && monohull build app.wasm
 *
 * Functions that return an error return 0, or an error number of WASI (<errno.h> of wasi-libc). Names are UTF-8, at most 255 bytes, and need no
 * zero at their end. Functions for a whole workflow in native C are in `function/include/monohull.h`.
 */
#ifndef MONOHULL_WASI_H
#define MONOHULL_WASI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MONOHULL_IMPORT(name) __attribute__((import_module("monohull"), import_name(name)))

/* A buffer that was taken over from a slot. It lies outside of the program's memory, and is copied in parts, or moved as a whole. */
struct monohull_slot {
    uint32_t handle;
    uint32_t length;
};

/* Takes over the bytes or the text in a slot. `wait` 0: EAGAIN if the slot is empty. ENOENT: no step is left that could fill it. */
int monohull_slot_take(const char *name, size_t name_length, int wait, struct monohull_slot *slot) MONOHULL_IMPORT("slot_take");

/* Copies a part of it. */
int monohull_slot_read(uint32_t handle, uint32_t offset, void *to, size_t length) MONOHULL_IMPORT("slot_read");

/* From so many bytes on, what begins with a page is moved and not copied. The fastest is a place aligned to 2 MiB that was not yet used. */
#define MONOHULL_PAGE 4096
#define MONOHULL_MOVED_MIN 65536

/* Puts all of it to `to`, where there are `length` bytes or more, and frees it. Where `to` begins with a page, pages take the place of those
 * that were there. EINVAL: it is longer. */
int monohull_slot_move(uint32_t handle, void *to, size_t length) MONOHULL_IMPORT("slot_move");

/* Frees it. */
int monohull_slot_free(uint32_t handle) MONOHULL_IMPORT("slot_free");

/* Fills a slot with a copy of these bytes; as text, which must be UTF-8, if `is_text` is not 0. */
int monohull_slot_publish(const char *name, size_t name_length, const void *bytes, size_t length, int is_text)
    MONOHULL_IMPORT("slot_publish");

/* Fills a slot with these bytes, which are zero afterwards. Where they begin with a page, pages become the slot's. After an error they are as they
 * were; of more than 64 MiB some may be zero. */
int monohull_slot_publish_moved(const char *name, size_t name_length, void *bytes, size_t length, int is_text)
    MONOHULL_IMPORT("slot_publish_moved");

/* Which of the step's instances this is, from 0; how many there are; which attempt this is, from 1. */
uint32_t monohull_instance_index(void) MONOHULL_IMPORT("instance_index");
uint32_t monohull_instance_count(void) MONOHULL_IMPORT("instance_count");
uint32_t monohull_attempt(void) MONOHULL_IMPORT("attempt");

/* Says that the program is ready for its inputs: what comes before is the same for all instances, and later ones start here. 1 if this one has, else 0.
 * Slots, files, output and random numbers come afterwards, or there is no template to start from. */
int monohull_ready(void) MONOHULL_IMPORT("ready");

/* Random bytes that may be drawn before: instances of one template have them in common. */
int monohull_common_random(void *bytes, size_t length) MONOHULL_IMPORT("common_random");

/* Bytes of the stack that are left. */
uint32_t monohull_stack_left(void) MONOHULL_IMPORT("stack_left");

/* What is attached to the program: an interpreter's program. */
uint32_t monohull_attachment_length(void) MONOHULL_IMPORT("attachment_length");
int monohull_attachment_read(uint32_t offset, void *to, size_t length) MONOHULL_IMPORT("attachment_read");

#ifdef __cplusplus
}
#endif

#endif
