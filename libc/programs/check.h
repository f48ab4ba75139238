/* What the programs of `visor/tests/e2e_programs.rs` share: each check that fails is a line, and the last line counts. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int checks, failures;

#define CHECK(condition)                                                              \
	do {                                                                              \
		checks++;                                                                     \
		if (!(condition)) {                                                           \
			int why = errno;                                                          \
			failures++;                                                               \
			printf("line %d: %s (errno %d)\n", __LINE__, #condition, why);            \
		}                                                                             \
	} while (0)

/* The call fails with this error. */
#define FAILS(call, error) CHECK((errno = 0, (long)(call)) == -1 && errno == (error))

static int end(void)
{
	printf("%d checks, %d failures\n", checks, failures);
	return failures != 0;
}
