/* System calls are function calls: the personality (crate `monohull-libc`) answers them. */
#define __SYSCALL_LL_E(x) (x)
#define __SYSCALL_LL_O(x) (x)

__attribute__((__visibility__("hidden"))) long __monohull_syscall(long, long, long, long, long, long, long);

#define __syscall0(n) __monohull_syscall((n), 0, 0, 0, 0, 0, 0)
#define __syscall1(n, a) __monohull_syscall((n), (a), 0, 0, 0, 0, 0)
#define __syscall2(n, a, b) __monohull_syscall((n), (a), (b), 0, 0, 0, 0)
#define __syscall3(n, a, b, c) __monohull_syscall((n), (a), (b), (c), 0, 0, 0)
#define __syscall4(n, a, b, c, d) __monohull_syscall((n), (a), (b), (c), (d), 0, 0)
#define __syscall5(n, a, b, c, d, e) __monohull_syscall((n), (a), (b), (c), (d), (e), 0)
#define __syscall6(n, a, b, c, d, e, f) __monohull_syscall((n), (a), (b), (c), (d), (e), (f))

#define IPC_64 0
