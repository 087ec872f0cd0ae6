/* A fake libcuda.so.1 for tests: device memory is host memory, and what was not given back can be counted. */
#include "steering.h"

int fake_contexts, fake_blocks;

#define GATE() \
	do { \
		int code = gate(__func__, 0); \
		if (code) \
			return code; \
	} while (0)

int cuGetErrorName(int code, const char **into)
{
	*into = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 999 ? "CUDA_ERROR_UNKNOWN" : NULL;
	return *into ? 0 : 1;
}

int cuGetErrorString(int code, const char **into)
{
	*into = code == 2 ? "out of memory" : code == 999 ? "unknown error" : NULL;
	return *into ? 0 : 1;
}

int cuInit(unsigned flags) { GATE(); return flags ? 1 : 0; }
int cuDriverGetVersion(int *into) { GATE(); *into = (int)number("cuda", 0, 12040); return 0; }
int cuDeviceGetCount(int *into) { GATE(); *into = (int)number("cuda_count", 0, 1); return 0; }
int cuDeviceGet(int *into, int index) { GATE(); *into = index; return 0; }

int cuDeviceGetName(char *into, int size, int device)
{
	GATE();
	if (!lookup("name", device, into, (size_t)size))
		snprintf(into, (size_t)size, "NVIDIA A100-SXM4-80GB");
	return 0;
}

/* GPU-0000000N-aaaa-bbbb-cccc-dddddddddddd, as the fake NVML says it; N is cuda_uuid. */
int cuDeviceGetUuid_v2(unsigned char *into, int device)
{
	static const unsigned char rest[] = { 0xaa, 0xaa, 0xbb, 0xbb, 0xcc, 0xcc, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd, 0xdd };
	GATE();
	memset(into, 0, 4);
	into[3] = (unsigned char)number("cuda_uuid", device, 0);
	memcpy(into + 4, rest, sizeof rest);
	return 0;
}

int cuDeviceGetAttribute(int *into, int which, int device)
{
	GATE();
	*into = which == 75 ? (int)number("major", device, 8) : which == 76 ? (int)number("minor", device, 0) : -1;
	return *into < 0;
}

int cuDevicePrimaryCtxRetain(void **into, int device) { GATE(); fake_contexts++; *into = (void *)(long)(device + 1); return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { GATE(); fake_contexts--; return device; }
int cuCtxSetCurrent(void *context) { GATE(); return context ? 0 : 201; }

int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	GATE();
	*total = 85899345920UL;
	*free_bytes = *total - (size_t)number("used", 0, 0);
	return 0;
}

int cuMemAlloc_v2(unsigned long long *into, size_t size)
{
	GATE();
	fake_blocks++;
	*into = (unsigned long long)malloc(size);
	return 0;
}

int cuMemHostAlloc(void **into, size_t size, unsigned flags) { GATE(); fake_blocks++; *into = malloc(size); return (int)flags; }
int cuMemFree_v2(unsigned long long memory) { GATE(); fake_blocks--; free((void *)memory); return 0; }
int cuMemFreeHost(void *memory) { GATE(); fake_blocks--; free(memory); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) { GATE(); memcpy((void *)to, from, size); return 0; }

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size)
{
	GATE();
	memcpy(to, (void *)from, size);
	if (number("flip", 0, -1) >= 0)
		((unsigned char *)to)[number("flip", 0, 0)] ^= 4;
	return 0;
}
