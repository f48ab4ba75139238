/* An ordinary C program for WASI, with wasi-libc: arguments, a file, standard streams, and a slot in and out.
 *
 * Each line says what came of what was tried, so that a test can compare. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>
#include "monohull-wasi.h"

static void must(int ok, const char *what) {
    if (!ok) {
        fprintf(stderr, "%s: %s\n", what, strerror(errno));
        exit(1);
    }
}

int main(int argc, char **argv) {
    printf("hello from C, %d arguments, the last is %s\n", argc, argv[argc - 1]);

    FILE *file = fopen("/work/numbers", "w+");
    must(file != NULL, "fopen");
    for (int i = 0; i < 1000; i++)
        must(fprintf(file, "%d\n", i) > 0, "fprintf");
    must(fseek(file, 0, SEEK_SET) == 0, "fseek");
    long sum = 0;
    for (int i; fscanf(file, "%d", &i) == 1;)
        sum += i;
    fclose(file);
    printf("from the file: %ld\n", sum);
    must(fopen("/work/none", "r") == NULL && errno == ENOENT, "a file that is not there");
    must(time(NULL) > 1577836800, "time");

    int lock = open("/work/lock", O_RDONLY | O_CREAT, 0644);
    must(lock >= 0 && read(lock, &sum, 1) == 0 && close(lock) == 0, "a file that is made and read");
    must((lock = open("/work/numbers", O_RDONLY | O_APPEND)) >= 0 && write(lock, "x", 1) == -1 && close(lock) == 0, "no writing");
    must((lock = open("/work/numbers", O_RDONLY | O_TRUNC)) >= 0 && read(lock, &sum, 1) == 0 && close(lock) == 0, "emptied");
    must(open("/work/lock", O_RDONLY | O_CREAT | O_EXCL, 0644) == -1 && errno == EEXIST, "it is there");

    /* More than is printed at once, in two parts. */
    static char long_one[20000], short_one[100];
    memset(long_one, 'x', sizeof long_one);
    memset(short_one, 'y', sizeof short_one);
    for (size_t done = 0, all = sizeof long_one + sizeof short_one; done < all;) {
        size_t first = done < sizeof long_one ? done : sizeof long_one;
        struct iovec parts[2] = {{long_one + first, sizeof long_one - first}, {short_one + (done - first), all - sizeof long_one - (done - first)}};
        ssize_t written = writev(2, parts, 2);
        must(written > 0, "writev");
        done += (size_t)written;
    }

    struct monohull_slot in;
    must((errno = monohull_slot_take("in", 2, 1, &in)) == 0, "slot_take");
    char *text = malloc(in.length + 3);
    must(text != NULL, "malloc");
    text[0] = 'C';
    text[1] = ':';
    must((errno = monohull_slot_read(in.handle, 0, text + 2, in.length)) == 0, "slot_read");
    must((errno = monohull_slot_free(in.handle)) == 0, "slot_free");
    must((errno = monohull_slot_publish("out", 3, text, in.length + 2, 1)) == 0, "slot_publish");
    free(text);
    return 0;
}
