/* The last step of kinds.json, in C: draws a ship on the picture in the slot `argv[1]`, in the memory of that slot, and hands it on. */
#include <monohull.h>
#include <stdio.h>
#include <string.h>

static const char *const SHIP[] = { "   |\\", "   | \\", "   |__\\", "\\__|____/", " \\_____/" };
static const size_t LINES = sizeof SHIP / sizeof *SHIP;

static int failed(const char *what)
{
	char why[256] = "";
	monohull_last_error(why, sizeof why);
	fprintf(stderr, "%s: %s\n", what, why);
	return 1;
}

int main(int argc, char **argv)
{
	monohull_buffer picture, legend;
	if (argc != 2)
		return failed("one slot is named");
	if (monohull_take(argv[1], &picture) < 0)
		return failed(argv[1]);
	if (monohull_take("legend", &legend) < 0)
		return failed("legend");

	unsigned char *end = memchr(picture.data, '\n', picture.len);
	size_t width = end ? end - picture.data + 1 : 0;
	if (width < 24 || picture.len < width * (LINES + 1))
		return failed("there is no room for a ship");
	if (monohull_will_write(&picture) < 0)
		return failed("will_write");
	for (size_t line = 0; line < LINES; line++)
		memcpy(picture.data + (line + 1) * width + 12, SHIP[line], strlen(SHIP[line]));

	fwrite(legend.data, 1, legend.len, stdout);
	printf("%zu bytes at %p\n", picture.len, (void *)picture.data);
	monohull_discard(&legend);
	if (monohull_publish("picture", &picture) < 0)
		return failed("picture");
	return 0;
}
