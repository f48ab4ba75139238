/* A program that builds a table before it says that it is ready for inputs (`monohull.h`), and then has inputs, arguments, an
 * environment and randomness of its own. */
#include "check.h"
#include <monohull.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static int seen;

static void *thread(void *sum)
{
	*(uint64_t *)sum += 1;
	return 0;
}

int main(int argc, char **argv)
{
	enum { LETTERS = 256 };
	uint64_t *table = malloc(LETTERS * sizeof *table), sum = 0, random = 0;
	for (int letter = 0; letter < LETTERS; letter++) {
		table[letter] = letter;
		for (int at = 0; at < 1000; at++) table[letter] = table[letter] * 6364136223846793005u + 1442695040888963407u;
	}
	struct timespec before, after;
	clock_gettime(CLOCK_MONOTONIC, &before);
	int template = monohull_ready();
	clock_gettime(CLOCK_MONOTONIC, &after);
	monohull_buffer in, out;
	CHECK(monohull_take("in", &in) == 0 && monohull_make(4096, &out) == 0);
	for (size_t at = 0; at < in.len; at++) sum += table[in.data[at]];
	/* Memory, locks and threads go on from there. */
	pthread_t other;
	CHECK(pthread_create(&other, 0, thread, &sum) == 0 && pthread_join(other, 0) == 0);
	CHECK(getrandom(&random, sizeof random, 0) == sizeof random);
	const char *label = getenv("LABEL");
	out.len = snprintf((char *)out.data, out.capacity,
		"template=%s\nsum=%016llx\nrandom=%016llx\nlabel=%s\nargument=%s\nseen=%d\nbackwards=%d\nfailures=%d\n",
		template ? "true" : "false", (unsigned long long)sum, (unsigned long long)random, label ? label : "", argc > 1 ? argv[1] : "",
		seen++, after.tv_sec < before.tv_sec, failures);
	monohull_discard(&in);
	free(table);
	return monohull_publish("out", &out) != 0;
}
