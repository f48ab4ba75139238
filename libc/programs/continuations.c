/* Continuations, by `monohull.h`: a thread waits, and another one lets it go on. */
#include "check.h"
#include <monohull.h>
#include <pthread.h>

static void *waits(void *came)
{
	monohull_buffer value;
	if ((*(int *)came = monohull_call_cc("next", &value)) < 0)
		return NULL;
	*(int *)came = value.len == 5 && !memcmp(value.data, "value", 5);
	monohull_discard(&value);
	return NULL;
}

int main(void)
{
	pthread_t thread;
	monohull_buffer buffer;
	int came = 0;
	CHECK(pthread_create(&thread, NULL, waits, &came) == 0);
	CHECK(monohull_resume("next", "value", 5) == 0);
	CHECK(pthread_join(thread, NULL) == 0 && came == 1);
	/* Passed on, used once, and of no use then. */
	monohull_continuation taken, copy;
	CHECK(monohull_try_take_continuation("next", &taken) == MONOHULL_NOT_FOUND && taken.token == 0);
	CHECK(pthread_create(&thread, NULL, waits, &came) == 0);
	CHECK(monohull_take_continuation("next", &taken) == 0 && taken.token != 0);
	CHECK(monohull_publish_continuation("further", &taken) == 0 && taken.token == 0);
	CHECK(monohull_try_take_continuation("further", &taken) == 0);
	copy = taken;
	CHECK(monohull_resume_continuation(&taken, "value", 5) == 0 && taken.token == 0);
	CHECK(monohull_resume_continuation(&copy, "value", 5) < 0 && copy.token != 0);
	CHECK(monohull_publish_continuation("further", &copy) < 0 && copy.token != 0);
	CHECK(pthread_join(thread, NULL) == 0 && came == 1);
	CHECK(pthread_create(&thread, NULL, waits, &came) == 0);
	CHECK(monohull_take_continuation("next", &taken) == 0);
	monohull_drop_continuation(&taken, 1);
	monohull_drop_continuation(&taken, 1);
	CHECK(taken.token == 0 && pthread_join(thread, NULL) == 0 && came == MONOHULL_NEVER_FILLED);
	/* What lies there is no continuation, and is in the way of one. */
	CHECK(monohull_make(1, &buffer) == 0 && monohull_publish("other", &buffer) == 0);
	CHECK(monohull_resume("other", NULL, 0) == MONOHULL_WRONG_TYPE);
	CHECK(monohull_call_cc("other", &buffer) == MONOHULL_EXISTS && buffer.data == NULL);
	CHECK(monohull_take("other", &buffer) == 0);
	monohull_discard(&buffer);
	return end();
}
