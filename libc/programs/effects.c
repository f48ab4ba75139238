/* Effects, by `monohull.h`. With a standard input it is the handler: of what is asked in capitals nothing is known. */
#include "check.h"
#include <ctype.h>
#include <monohull.h>
#include <unistd.h>

static int handles(char *request, ssize_t len)
{
	monohull_buffer reply;
	if (isupper((unsigned char)request[0])) {
		fprintf(stderr, "nothing is known of %.*s\n", (int)len, request);
		return 1;
	}
	if (monohull_make(len, &reply) < 0)
		return 2;
	for (ssize_t i = 0; i < len; i++)
		reply.data[i] = toupper((unsigned char)request[i]);
	reply.len = len;
	return monohull_publish("reply", &reply) < 0 ? 3 : 0;
}

int main(void)
{
	char request[64], text[256];
	ssize_t len = read(0, request, sizeof request);
	if (len > 0)
		return handles(request, len);
	monohull_buffer reply;
	CHECK(monohull_perform("shout", "what", 4, &reply) == 0);
	CHECK(reply.len == 4 && !memcmp(reply.data, "WHAT", 4));
	monohull_discard(&reply);
	CHECK(monohull_perform("shout", "WHAT", 4, &reply) == 1);
	CHECK(reply.len > 0 && memmem(reply.data, reply.len, "exited with status 1", 20));
	monohull_discard(&reply);
	CHECK(monohull_perform("nobody", "what", 4, &reply) == MONOHULL_NOT_FOUND && reply.data == NULL);
	CHECK(monohull_last_error(text, sizeof text) > 0 && strstr(text, "no step of the workflow handles effect `nobody`"));
	CHECK(monohull_perform("", NULL, 0, &reply) == MONOHULL_INVALID && reply.data == NULL);
	return end();
}
