/* An ordinary C program for WASI, with wasi-libc: arguments, a file, standard streams, and a slot in and out.
 *
 * Each line says what came of what was tried, so that a test can compare. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
