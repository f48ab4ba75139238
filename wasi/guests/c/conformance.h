/* What the parts of the program `conformance.c` have in common. */

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int32_t I;
typedef int64_t L;

/* -- Functions of WASI --------------------------------------------------------------------------------------------------- */

#define FUNCTIONS                                                                                                             \
    C2(args_get, I, I) C2(args_sizes_get, I, I) C2(clock_res_get, I, I) C3(clock_time_get, I, L, I) C2(environ_get, I, I)     \
    C2(environ_sizes_get, I, I) C4(fd_advise, I, L, L, I) C3(fd_allocate, I, L, L) C1(fd_close, I) C1(fd_datasync, I)         \
    C2(fd_fdstat_get, I, I) C2(fd_fdstat_set_flags, I, I) C3(fd_fdstat_set_rights, I, L, L) C2(fd_filestat_get, I, I)         \
    C2(fd_filestat_set_size, I, L) C4(fd_filestat_set_times, I, L, L, I) C5(fd_pread, I, I, I, L, I)                          \
    C3(fd_prestat_dir_name, I, I, I) C2(fd_prestat_get, I, I) C5(fd_pwrite, I, I, I, L, I) C4(fd_read, I, I, I, I)            \
    C5(fd_readdir, I, I, I, L, I) C2(fd_renumber, I, I) C4(fd_seek, I, L, I, I) C1(fd_sync, I) C2(fd_tell, I, I)              \
    C4(fd_write, I, I, I, I) C3(path_create_directory, I, I, I) C5(path_filestat_get, I, I, I, I, I)                          \
    C7(path_filestat_set_times, I, I, I, I, L, L, I) C7(path_link, I, I, I, I, I, I, I)                                       \
    C9(path_open, I, I, I, I, I, L, L, I, I) C6(path_readlink, I, I, I, I, I, I) C3(path_remove_directory, I, I, I)           \
    C6(path_rename, I, I, I, I, I, I) C5(path_symlink, I, I, I, I, I) C3(path_unlink_file, I, I, I)                           \
    C4(poll_oneoff, I, I, I, I) C1(proc_raise, I) C2(random_get, I, I) C0(sched_yield) C3(sock_accept, I, I, I)               \
    C6(sock_recv, I, I, I, I, I, I) C5(sock_send, I, I, I, I, I) C2(sock_shutdown, I, I)

#define WASI(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name)))
#define C0(n) F(n, (void), ())
#define C1(n, A) F(n, (A), ((A)v[0]))
#define C2(n, A, B) F(n, (A, B), ((A)v[0], (B)v[1]))
#define C3(n, A, B, C) F(n, (A, B, C), ((A)v[0], (B)v[1], (C)v[2]))
#define C4(n, A, B, C, D) F(n, (A, B, C, D), ((A)v[0], (B)v[1], (C)v[2], (D)v[3]))
#define C5(n, A, B, C, D, E) F(n, (A, B, C, D, E), ((A)v[0], (B)v[1], (C)v[2], (D)v[3], (E)v[4]))
#define C6(n, A, B, C, D, E, G) F(n, (A, B, C, D, E, G), ((A)v[0], (B)v[1], (C)v[2], (D)v[3], (E)v[4], (G)v[5]))
#define C7(n, A, B, C, D, E, G, H) \
    F(n, (A, B, C, D, E, G, H), ((A)v[0], (B)v[1], (C)v[2], (D)v[3], (E)v[4], (G)v[5], (H)v[6]))
#define C9(n, A, B, C, D, E, G, H, J, K) \
    F(n, (A, B, C, D, E, G, H, J, K), ((A)v[0], (B)v[1], (C)v[2], (D)v[3], (E)v[4], (G)v[5], (H)v[6], (J)v[7], (K)v[8]))

#define F(name, types, arguments) WASI(name) I wasi_##name types;
FUNCTIONS
#undef F
WASI(proc_exit) _Noreturn void wasi_proc_exit(I);

/* Output is kept until it is flushed. */
void say(const char *format, ...);
void flush(void);
void say_error(I error);
void say_bytes(const uint8_t *bytes, size_t length);

/* A buffer, `@` of scripts; and the parameters of the line that is being run. */
extern uint8_t scratch[1 << 17];
extern L values[32];
extern size_t count;
/* The descriptor that the line opens. */
extern L opened;

/* Runs the action of a name, if there is one. */
bool act(const char *name);
/* Prints what is beneath a directory. */
void tree(I at, const char *path, const char *shown);
