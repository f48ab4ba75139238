/* What programs of other projects call and wasi-libc does not declare. Included before each of their files; the functions are in missing.c. */
#ifndef MISSING_H
#define MISSING_H

#include <__typedef_sigset_t.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>

/* Processes: there are none, so these fail with ENOSYS. */
int system(const char *command);
FILE *popen(const char *command, const char *mode);
int pclose(FILE *stream);

/* Signals: wasi-libc keeps handlers, and none ever comes. */
struct sigaction {
    void (*sa_handler)(int);
    sigset_t sa_mask;
    int sa_flags;
};
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
int sigaction(int number, const struct sigaction *now, struct sigaction *before);
int sigprocmask(int how, const sigset_t *now, sigset_t *before);
int sigemptyset(sigset_t *set);
int sigfillset(sigset_t *set);
int sigaddset(sigset_t *set, int number);
unsigned alarm(unsigned seconds);
/* In place of `pipe` where a handler of signals writes to it, which wakes the program: nothing ever does. */
int missing_pipe_of_signals(int ends[2]);

/* Permissions and owners: no mount has them. As in native programs, changes are accepted and have no effect. */
int chmod(const char *path, mode_t mode);
int fchmod(int file, mode_t mode);
int chown(const char *path, uid_t owner, gid_t group);
int fchown(int file, uid_t owner, gid_t group);
mode_t umask(mode_t mask);
uid_t geteuid(void);

/* Memory. */
int getpagesize(void);

/* Files. */
char *realpath(const char *path, char *to);
int mkstemp(char *name);
FILE *tmpfile(void);
/* Of unistd.h, which is not included wherever this is called. */
int isatty(int file);

#endif
