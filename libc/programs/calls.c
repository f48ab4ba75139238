/* System calls by their numbers: those that the other programs make through the library, if at all. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <poll.h>
#include <unistd.h>

static int ended;

static void files(void)
{
	struct stat status;
	struct statfs system;
	char text[32] = "", entries[512];
	int file = syscall(SYS_openat, AT_FDCWD, "/file", O_RDWR | O_CREAT, 0644);
	CHECK(file >= 0 && syscall(SYS_pwrite64, file, "abcdef", 6, 2) == 6 && syscall(SYS_pread64, file, text, 32, 1) == 7 && !memcmp(text, "\0abcdef", 7));
	FAILS(syscall(SYS_pread64, file, text, 1, -1l), EINVAL);
	FAILS(syscall(SYS_pwrite64, -1, text, 1, 0), EBADF);
	struct iovec part = {text, 3};
	CHECK(syscall(SYS_preadv2, file, &part, 1, 2, 0, 0) == 3 && !memcmp(text, "abc", 3) && syscall(SYS_preadv2, file, &part, 1, -1l, 0, 0) == 3);
	CHECK(syscall(SYS_pwritev2, file, &part, 1, 0, 0, 0) == 3 && syscall(SYS_lseek, file, 0, SEEK_CUR) == 3);
	FAILS(syscall(SYS_preadv2, file, &part, 1, 0, 0, 8), EOPNOTSUPP);
	FAILS(syscall(SYS_pwritev2, file, &part, 1, 0, 0, 8), EOPNOTSUPP);
	/* Accepted of what is there. */
	CHECK(syscall(SYS_flock, file, 2) == 0 && syscall(SYS_fadvise64, file, 0, 0, 2) == 0);
	CHECK(syscall(SYS_fchmod, file, 0600) == 0 && syscall(SYS_fchown, file, 1, 1) == 0 && syscall(SYS_lchown, "/file", 1, 1) == 0);
	CHECK(syscall(SYS_fchmodat, AT_FDCWD, "/file", 0600) == 0 && syscall(SYS_fchownat, AT_FDCWD, "/file", 1, 1, 0) == 0);
	CHECK(syscall(SYS_chmod, "/file", 0600) == 0 && syscall(SYS_chown, "/file", 1, 1) == 0);
	CHECK(syscall(SYS_fstat, file, &status) == 0 && (status.st_mode & 0777) == 0644 && status.st_uid == 0);
	CHECK(syscall(SYS_sync_file_range, file, 0, 0, 2) == 0);
	FAILS(syscall(SYS_sync_file_range, 99, 0, 0, 2), EBADF);
	FAILS(syscall(SYS_mknod, "/fifo", 0010600, 0), ENOSYS);
	FAILS(syscall(SYS_flock, 99, 2), EBADF);
	FAILS(syscall(SYS_fadvise64, 99, 0, 0, 2), EBADF);
	FAILS(syscall(SYS_fchmod, 99, 0), EBADF);
	FAILS(syscall(SYS_fchown, 99, 0, 0), EBADF);
	FAILS(syscall(SYS_lchown, "/none", 0, 0), ENOENT);
	FAILS(syscall(SYS_fchmodat, AT_FDCWD, "/none", 0), ENOENT);
	FAILS(syscall(SYS_fchownat, AT_FDCWD, "/none", 0, 0, 0), ENOENT);
	CHECK(syscall(SYS_fstatfs, file, &system) == 0 && system.f_bsize == 4096 && system.f_bfree > 0);
	FAILS(syscall(SYS_fstatfs, file, 0), EFAULT);
	CHECK(syscall(SYS_newfstatat, AT_FDCWD, "/file", &status, 0) == 0 && status.st_size == 8);
	CHECK(syscall(SYS_newfstatat, file, "", &status, AT_EMPTY_PATH) == 0 && status.st_size == 8);
	FAILS(syscall(SYS_newfstatat, AT_FDCWD, "/none", &status, 0), ENOENT);
	CHECK(syscall(SYS_faccessat2, AT_FDCWD, "/file", R_OK | W_OK, 0) == 0);
	FAILS(syscall(SYS_faccessat2, AT_FDCWD, "/file", X_OK, 0), EACCES);
	FAILS(syscall(SYS_readlinkat, AT_FDCWD, "/file", text, 32), EINVAL);
	FAILS(syscall(SYS_readlinkat, AT_FDCWD, "/none", text, 32), ENOENT);
	int root = syscall(SYS_openat, AT_FDCWD, "/", O_RDONLY | O_DIRECTORY, 0);
	long bytes = syscall(SYS_getdents64, root, entries, sizeof entries);
	CHECK(bytes > 19 && !strcmp(entries + 19, "file") && syscall(SYS_getdents64, root, entries, sizeof entries) == 0);
	FAILS(syscall(SYS_getdents64, file, entries, sizeof entries), ENOTDIR);
	/* What libraries do by themselves then. */
	FAILS(syscall(SYS_copy_file_range, file, 0, file, 0, 1, 0), ENOSYS);
	FAILS(syscall(SYS_sendfile, 1, file, 0, 1), ENOSYS);
	FAILS(syscall(SYS_splice, file, 0, 1, 0, 1, 0), ENOSYS);
	FAILS(syscall(SYS_getxattr, "/file", "user.a", text, 32), EOPNOTSUPP);
	FAILS(syscall(SYS_lgetxattr, "/file", "user.a", text, 32), EOPNOTSUPP);
	FAILS(syscall(SYS_fgetxattr, file, "user.a", text, 32), EOPNOTSUPP);
	FAILS(syscall(SYS_listxattr, "/file", text, 32), EOPNOTSUPP);
	FAILS(syscall(SYS_symlink, "/file", "/other"), EPERM);
	FAILS(syscall(SYS_symlinkat, "/file", AT_FDCWD, "/other"), EPERM);
	FAILS(syscall(SYS_linkat, AT_FDCWD, "/file", AT_FDCWD, "/other", 0), EPERM);
	CHECK(syscall(SYS_close, file) == 0 && syscall(SYS_close, root) == 0 && syscall(SYS_unlink, "/file") == 0);
}

static void waiting(void)
{
	struct timespec soon = {0, 1000000}, forever = {0, -1};
	int counter = syscall(SYS_eventfd2, 1, 0);
	struct pollfd look = {counter, POLLIN, 0};
	fd_set set;
	FD_ZERO(&set);
	FD_SET(counter, &set);
	CHECK(counter >= 0 && syscall(SYS_ppoll, &look, 1, &soon, 0, 8) == 1 && look.revents == POLLIN);
	CHECK(syscall(SYS_pselect6, counter + 1, &set, 0, 0, &soon, 0) == 1 && FD_ISSET(counter, &set));
	long taken;
	CHECK(syscall(SYS_read, counter, &taken, 8) == 8 && taken == 1);
	CHECK(syscall(SYS_ppoll, &look, 1, &soon, 0, 8) == 0 && syscall(SYS_pselect6, counter + 1, &set, 0, 0, &soon, 0) == 0);
	FAILS(syscall(SYS_ppoll, &look, 1, &forever, 0, 8), EINVAL);
	int list = syscall(SYS_epoll_create, 1);
	struct epoll_event event;
	CHECK(list >= 0 && syscall(SYS_epoll_pwait, list, &event, 1, 1, 0, 8) == 0 && syscall(SYS_epoll_pwait2, list, &event, 1, &soon, 0, 8) == 0);
	CHECK(syscall(SYS_close, list) == 0 && syscall(SYS_close, counter) == 0);
}

static void memory(void)
{
	char *pages = aligned_alloc(4096, 8192);
	unsigned char present;
	FAILS(syscall(SYS_brk, 0), ENOMEM);
	FAILS(syscall(SYS_mlock, pages, 4096), ENOMEM);
	CHECK(syscall(SYS_munlock, pages, 4096) == 0);
	FAILS(syscall(SYS_mincore, pages, 4096, &present), ENOSYS);
	FAILS(syscall(SYS_membarrier, 0, 0, 0), ENOSYS);
	FAILS(syscall(SYS_memfd_create, "memory", 0), ENOSYS);
	free(pages);
}

static void the_process(void)
{
	CHECK(syscall(SYS_getuid) == 0 && syscall(SYS_geteuid) == 0 && syscall(SYS_getgid) == 0 && syscall(SYS_getegid) == 0);
	CHECK(syscall(SYS_getgroups, 0, 0) == 0 && syscall(SYS_getpgid, 0) == 1 && syscall(SYS_getpgrp) == 1 && syscall(SYS_getsid, 0) == 1);
	CHECK(syscall(SYS_getpriority, 0, 0) == 0 && syscall(SYS_umask, 022) == 0);
	struct rlimit limit, same;
	CHECK(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, 0, &limit) == 0 && limit.rlim_cur == 1024);
	CHECK(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, &same) == 0 && same.rlim_cur == 1024);
	limit.rlim_cur = 10;
	FAILS(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, 0), EPERM);
	/* A name of a thread is accepted. */
	CHECK(syscall(SYS_prctl, 15, "thread") == 0 && syscall(SYS_prctl, 3) == 0);
	FAILS(syscall(SYS_prctl, 38, 1, 0, 0, 0), EINVAL);
	unsigned long set[2] = {5, 5};
	CHECK(syscall(SYS_rt_sigprocmask, 0, set, set + 1, 8) == 0 && set[1] == 0 && syscall(SYS_rt_sigpending, set, 8) == 0);
	long action[4] = {1, 1, 1, 1};
	CHECK(syscall(SYS_rt_sigaction, 10, 0, action, 8) == 0 && !action[0] && !action[3]);
	FAILS(syscall(SYS_rt_sigaction, 65, 0, action, 8), EINVAL);
	stack_t stack = {0};
	CHECK(syscall(SYS_sigaltstack, 0, &stack) == 0 && stack.ss_flags == SS_DISABLE);
	CHECK(syscall(SYS_tgkill, 1, 1, 0) == 0);
	FAILS(syscall(SYS_tgkill, 1, 1, 15), EPERM);
	FAILS(syscall(SYS_setrlimit, RLIMIT_NOFILE, &limit), EPERM);
	FAILS(syscall(SYS_setsid), EPERM);
	FAILS(syscall(SYS_mount, "a", "/", "b", 0, 0), EPERM);
	FAILS(syscall(SYS_chroot, "/"), EPERM);
	/* There are no other processes. */
	FAILS(syscall(SYS_fork), ENOSYS);
	FAILS(syscall(SYS_vfork), ENOSYS);
	FAILS(syscall(SYS_clone, 17, 0, 0, 0, 0), ENOSYS);
	FAILS(syscall(SYS_clone3, set, 64), ENOSYS);
	FAILS(syscall(SYS_execve, "/file", 0, 0), ENOSYS);
	FAILS(syscall(SYS_execveat, AT_FDCWD, "/file", 0, 0, 0), ENOSYS);
	FAILS(syscall(SYS_wait4, -1, 0, 0, 0), ECHILD);
	FAILS(syscall(SYS_waitid, 0, 0, 0, 4, 0), ECHILD);
	FAILS(syscall(SYS_pidfd_open, 1, 0), ENOSYS);
	/* Neither timers nor watches. */
	FAILS(syscall(SYS_timer_create, 0, 0, set), ENOSYS);
	FAILS(syscall(SYS_setitimer, 0, set, 0), ENOSYS);
	FAILS(syscall(SYS_alarm, 1), ENOSYS);
	FAILS(syscall(SYS_inotify_init), ENOSYS);
	FAILS(syscall(SYS_fanotify_init, 0, 0), ENOSYS);
	FAILS(syscall(SYS_io_uring_setup, 8, set), ENOSYS);
	FAILS(syscall(SYS_io_uring_enter, 0, 1, 1, 0, 0), ENOSYS);
	FAILS(syscall(SYS_io_uring_register, 0, 0, 0, 0), ENOSYS);
}

/* A wait for a signal never ends, unless the program does. */
static void *pauses(void *number)
{
	syscall((long)number, 0, 8);
	ended++;
	return 0;
}

static void *exits(void *nothing)
{
	syscall(SYS_exit, 0);
	ended++;
	return nothing;
}

static void threads(void)
{
	unsigned long mask = 1, list = 5;
	unsigned word = 7, processor;
	CHECK(syscall(SYS_sched_setaffinity, 0, 8, &mask) == 0 && syscall(SYS_sched_yield) == 0);
	CHECK(syscall(SYS_set_robust_list, &list, 24) == 0 && syscall(SYS_get_robust_list, 0, &list, &mask) == 0);
	FAILS(syscall(SYS_rseq, &list, 32, 0, 0), ENOSYS);
	FAILS(syscall(SYS_getcpu, &processor, 0, 0), ENOSYS);
	CHECK(syscall(SYS_set_tid_address, &word) == 1 && syscall(SYS_gettid) == 1 && word == 7);
	pthread_t thread;
	CHECK(pthread_create(&thread, 0, pauses, (void *)SYS_pause) == 0 && pthread_create(&thread, 0, pauses, (void *)SYS_rt_sigsuspend) == 0);
	CHECK(pthread_create(&thread, 0, exits, 0) == 0);
	usleep(20000);
	CHECK(ended == 0);
}

int main(void)
{
	files();
	waiting();
	memory();
	the_process();
	threads();
	int failed = end();
	fflush(stdout);
	syscall(SYS_exit_group, failed);
	return 9;
}
