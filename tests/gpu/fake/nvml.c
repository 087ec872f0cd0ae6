/* A fake libnvidia-ml.so.1 for tests: two idle GPUs, until the steering file says otherwise. */
#include "steering.h"

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu, compute; } process_t;

enum { NOT_SUPPORTED = 3, NOT_FOUND = 6, INVALID = 2, TOO_SMALL = 7 };

/* A handle is 1 + device, and 1000 * (1 + device) + 1 + instance for a MIG device. */
static int device_of(void *handle)
{
	long value = (long)handle;
	return (int)(value >= 1000 ? value / 1000 : value) - 1;
}

static int text(const char *key, int device, const char *format, char *into, unsigned size)
{
	char given[128];
	if (lookup(key, device, given, sizeof given))
		snprintf(into, size, "%s", given);
	else
		snprintf(into, size, format, device);
	return 0;
}

#define GATE(device) \
	do { \
		int code = gate(__func__, device); \
		if (code) \
			return code; \
	} while (0)
#define NUMBER(function, key, otherwise) \
	int function(void *handle, unsigned *into) \
	{ \
		GATE(device_of(handle)); \
		*into = (unsigned)number(key, device_of(handle), otherwise); \
		return 0; \
	}

const char *nvmlErrorString(int code)
{
	static char said[64];
	snprintf(said, sizeof said, "fake text of code %d", code);
	return code == 15 ? "GPU is lost" : code == 999 ? "Unknown Error" : said;
}

int nvmlInit_v2(void) { GATE(-1); return 0; }
int nvmlSystemGetDriverVersion(char *into, unsigned size) { GATE(-1); return text("driver", -1, "550.54.15", into, size); }
int nvmlSystemGetCudaDriverVersion_v2(int *into) { GATE(-1); *into = (int)number("cuda", -1, 12040); return 0; }
int nvmlDeviceGetCount_v2(unsigned *into) { GATE(-1); *into = (unsigned)number("count", -1, 2); return 0; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **into)
{
	GATE((int)index);
	*into = (void *)(long)(index + 1);
	return 0;
}

int nvmlDeviceGetUUID(void *handle, char *into, unsigned size)
{
	GATE(device_of(handle));
	if ((long)handle >= 1000) {
		snprintf(into, size, "MIG-%d-%ld", device_of(handle), (long)handle % 1000 - 1);
		return 0;
	}
	return text("uuid", device_of(handle), "GPU-0000000%d-aaaa-bbbb-cccc-dddddddddddd", into, size);
}

int nvmlDeviceGetName(void *handle, char *into, unsigned size)
{
	GATE(device_of(handle));
	return text("name", device_of(handle), "NVIDIA A100-SXM4-80GB", into, size);
}

int nvmlDeviceGetMemoryInfo(void *handle, memory_t *into)
{
	GATE(device_of(handle));
	into->total = 85899345920ULL;
	into->used = (unsigned long long)number("used", device_of(handle), 0);
	into->free = into->total - into->used;
	return 0;
}

int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *later)
{
	GATE(device_of(handle));
	*now = *later = number("mig", device_of(handle), 0) > 0;
	return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *into) { GATE(device_of(handle)); *into = 7; return 0; }

int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **into)
{
	GATE(device_of(handle));
	if (index >= number("mig", device_of(handle), 0))
		return NOT_FOUND;
	*into = (void *)((long)handle * 1000 + index + 1);
	return 0;
}

int nvmlDeviceGetEccMode(void *handle, unsigned *now, unsigned *later)
{
	GATE(device_of(handle));
	*now = *later = (unsigned)number("ecc", device_of(handle), 1);
	return 0;
}

int nvmlDeviceGetTotalEccErrors(void *handle, int kind, int counter, unsigned long long *into)
{
	GATE(device_of(handle));
	if (kind != 1)
		return INVALID;
	*into = (unsigned long long)number(counter ? "ecc_aggregate" : "ecc_volatile", device_of(handle), 0);
	return 0;
}

int nvmlDeviceGetRemappedRows(void *handle, unsigned *correctable, unsigned *uncorrectable, unsigned *pending, unsigned *failed)
{
	GATE(device_of(handle));
	*correctable = 0;
	*uncorrectable = (unsigned)number("remapped", device_of(handle), 0);
	*pending = (unsigned)number("remap_pending", device_of(handle), 0);
	*failed = (unsigned)number("remap_failed", device_of(handle), 0);
	return 0;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *into)
{
	GATE(device_of(handle));
	*into = (unsigned long long)number("throttle", device_of(handle), 1);
	return 0;
}

int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *into)
{
	GATE(device_of(handle));
	*into = (unsigned)number("temperature", device_of(handle), 35);
	return sensor ? INVALID : 0;
}

NUMBER(nvmlDeviceGetPowerUsage, "power", 62500)
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power_limit", 400000)
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_generation", 4)
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_generation_max", 4)
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width", 16)
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max", 16)

int nvmlDeviceGetNvLinkState(void *handle, unsigned link, unsigned *into)
{
	GATE(device_of(handle));
	if (link >= number("links", device_of(handle), 12))
		return link ? INVALID : NOT_SUPPORTED;
	*into = link >= number("links_down", device_of(handle), 0);
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, process_t *into)
{
	unsigned size = *count, there = (unsigned)number("processes", device_of(handle), 0);
	GATE(device_of(handle));
	*count = there;
	if (size < there || (there && !into))
		return TOO_SMALL;
	for (unsigned at = 0; at < there; at++)
		into[at] = (process_t){ .pid = 4242 + at, .memory = 1073741824ULL };
	return 0;
}
