/* What programs of other projects call and wasi-libc does not have. */
#include "missing.h"
#include "pthread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int system(const char *command) {
    /* Without a command it asks whether there is a shell. */
    if (command == NULL) return 0;
    errno = ENOSYS;
    return -1;
}

FILE *popen(const char *command, const char *mode) {
    (void)command, (void)mode;
    errno = ENOSYS;
    return NULL;
}

int pclose(FILE *stream) {
    (void)stream;
    errno = ENOSYS;
    return -1;
}

int sigaction(int number, const struct sigaction *now, struct sigaction *before) {
    void (*handler)(int) = signal(number, now == NULL ? SIG_DFL : now->sa_handler);
    if (handler == SIG_ERR) return -1;
    if (now == NULL) signal(number, handler);
    if (before != NULL) *before = (struct sigaction){.sa_handler = handler};
    return 0;
}

int sigprocmask(int how, const sigset_t *now, sigset_t *before) {
    (void)how, (void)now;
    if (before != NULL) *before = 0;
    return 0;
}

int sigemptyset(sigset_t *set) {
    *set = 0;
    return 0;
}

int sigfillset(sigset_t *set) {
    *set = (sigset_t)-1;
    return 0;
}

/* A set has no room for all signals, and nothing reads it. */
int sigaddset(sigset_t *set, int number) {
    (void)set, (void)number;
    return 0;
}

unsigned alarm(unsigned seconds) {
    (void)seconds;
    return 0;
}

int missing_pipe_of_signals(int ends[2]) {
    ends[0] = open("/dev/null", O_RDONLY);
    ends[1] = open("/dev/null", O_WRONLY);
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

int chmod(const char *path, mode_t mode) {
    (void)mode;
    return access(path, F_OK);
}

int fchmod(int file, mode_t mode) {
    (void)mode;
    return fcntl(file, F_GETFL) < 0 ? -1 : 0;
}

int chown(const char *path, uid_t owner, gid_t group) {
    (void)owner, (void)group;
    return access(path, F_OK);
}

int fchown(int file, uid_t owner, gid_t group) {
    (void)owner, (void)group;
    return fcntl(file, F_GETFL) < 0 ? -1 : 0;
}

mode_t umask(mode_t mask) {
    static mode_t now = 022;
    mode_t before = now;
    now = mask & 0777;
    return before;
}

uid_t geteuid(void) {
    return 0;
}

/* A page of WebAssembly. */
int getpagesize(void) {
    return 65536;
}

/* No mount has links, so the names say where it is. */
char *realpath(const char *path, char *to) {
    char clean[PATH_MAX] = "", whole[PATH_MAX];
    if (path == NULL) {
        errno = EINVAL;
        return NULL;
    }
    if (path[0] == 0) {
        errno = ENOENT;
        return NULL;
    }
    size_t before = 0;
    if (path[0] != '/') {
        if (getcwd(whole, sizeof whole - 1) == NULL) return NULL;
        before = strlen(whole);
        whole[before++] = '/';
    }
    if (before + strlen(path) >= sizeof whole) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    strcpy(whole + before, path);
    for (char *rest, *name = strtok_r(whole, "/", &rest); name != NULL; name = strtok_r(NULL, "/", &rest)) {
        char *end = strrchr(clean, '/');
        if (strcmp(name, ".") == 0) continue;
        if (strcmp(name, "..") == 0) {
            if (end != NULL) *end = 0;
            continue;
        }
        /* It is no longer than `whole`. */
        strcat(clean, "/");
        strcat(clean, name);
    }
    if (clean[0] == 0) strcpy(clean, "/");
    if (access(clean, F_OK) < 0) return NULL;
    return to == NULL ? strdup(clean) : strcpy(to, clean);
}

int mkstemp(char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    size_t length = strlen(name);
    if (length < 6 || strcmp(name + length - 6, "XXXXXX") != 0) {
        errno = EINVAL;
        return -1;
    }
    for (int attempt = 0; attempt < 100; attempt++) {
        unsigned char random[6];
        if (getentropy(random, sizeof random) < 0) return -1;
        for (int i = 0; i < 6; i++) name[length - 6 + i] = letters[random[i] % 32];
        int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
        if (file >= 0 || errno != EEXIST) return file;
    }
    return -1;
}

FILE *tmpfile(void) {
    char name[] = "/tmp/file_XXXXXX";
    int file = mkstemp(name);
    if (file < 0) return NULL;
    unlink(name);
    FILE *stream = fdopen(file, "w+");
    if (stream == NULL) close(file);
    return stream;
}

/* A program has one thread, so a value of each thread is one value. */
#define KEYS 16
static int keys;
static void *values[KEYS];

int pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
    /* That is for threads that end before the program. */
    (void)destructor;
    if (keys == KEYS) return EAGAIN;
    *key = keys++;
    return 0;
}

int pthread_setspecific(pthread_key_t key, const void *value) {
    if ((int)key < 0 || (int)key >= keys) return EINVAL;
    values[key] = (void *)value;
    return 0;
}

void *pthread_getspecific(pthread_key_t key) {
    return (int)key < 0 || (int)key >= keys ? NULL : values[key];
}

int pthread_once(pthread_once_t *once, void (*function)(void)) {
    if (!*once) {
        *once = 1;
        function();
    }
    return 0;
}
