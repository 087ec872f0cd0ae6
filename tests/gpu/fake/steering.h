/* What the fake libraries say stands in the file that FAKE_GPU names: lines of KEY=VALUE.
 *
 * FUNCTION=CODE        this call returns CODE            FUNCTION.1=CODE   only for device 1
 * hang=FUNCTION        this call never returns            crash=FUNCTION    this call ends the process
 * KEY=VALUE            a fact (count, name, ...)           KEY.1=VALUE       of device 1
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int lookup(const char *key, int device, char *into, size_t size)
{
	char line[256], own[128];
	const char *path = getenv("FAKE_GPU");
	FILE *file = path ? fopen(path, "r") : NULL;
	int found = 0;

	snprintf(own, sizeof own, "%s.%d", key, device);
	while (file && fgets(line, sizeof line, file)) {
		char *value = strchr(line, '=');
		if (!value)
			continue;
		*value++ = 0;
		value[strcspn(value, "\n")] = 0;
		if (!strcmp(line, own) || (!strcmp(line, key) && found < 2)) {
			found = strcmp(line, own) ? 1 : 2;
			snprintf(into, size, "%s", value);
		}
	}
	if (file)
		fclose(file);
	return found;
}

static long number(const char *key, int device, long otherwise)
{
	char text[128];
	return lookup(key, device, text, sizeof text) ? strtol(text, NULL, 0) : otherwise;
}

static int asked(const char *what, const char *function)
{
	char text[128];
	return lookup(what, -1, text, sizeof text) && !strcmp(text, function);
}

/* The code that this call was told to return. */
static int gate(const char *function, int device)
{
	while (asked("hang", function))
		pause();
	if (asked("crash", function))
		abort();
	return (int)number(function, device, 0);
}
