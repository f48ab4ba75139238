/* Slots and the instance, by `monohull.h`. The slot `given` holds "eine Wörterfolge" as bytes; what is published ends in `upper`. */
#include "check.h"
#include <ctype.h>
#include <monohull.h>

int main(void)
{
	monohull_buffer in, out, again;
	char text[256];
	CHECK(monohull_instance_index() == 0 && monohull_instance_count() == 1 && monohull_attempt() == 1);
	CHECK(monohull_take("given", &in) == 0 && in.len == 17 && !memcmp(in.data, "eine W\xc3\xb6rterfolge", in.len));
	CHECK(monohull_make(64, &out) == 0 && out.len == 0 && out.capacity == 64 && out.data[63] == 0);
	for (size_t i = 0; i < in.len; i++)
		out.data[i] = in.data[i] < 128 ? toupper(in.data[i]) : in.data[i];
	out.len = in.len;
	CHECK(monohull_will_write(&in) == 0);
	in.data[0] = 'E';
	monohull_discard(&in);
	CHECK(in.data == NULL);
	CHECK(monohull_try_take("given", &again) == MONOHULL_NOT_FOUND || again.data == NULL);
	CHECK(monohull_publish("upper", &out) == 0 && out.data == NULL);
	CHECK(monohull_make(1, &again) == 0);
	CHECK(monohull_publish("", &again) < 0 && monohull_last_error(text, sizeof text) > 0 && again.data);
	monohull_discard(&again);
	return end();
}
