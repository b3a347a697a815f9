/* A stand-in for NVIDIA's management library: as much of nvml.h as the agent asks, about GPUs that a text file describes.
 *
 * MUSTER_AGENT_FAKE_GPUS names the file; it is read anew at each call. Its lines are those of tests/agent/fake_gpus.py; the ones
 * that count here: `gpu KEY=VALUE… name=REST`, `process uuid=… pid=… mib=…`, `xid uuid=… number=…` (each is told once),
 * `init CODE`, `hang`, `crash`. A value `-` is one that the GPU does not support, `!CODE` one that fails so.
 *
 * gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 stub_nvml.c; with -DOLD as drivers of 2018 were.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, TIMEOUT = 10, LOST = 15 };
enum { GPUS = 64, LINE = 512 };
typedef unsigned int U;
typedef unsigned long long UL;
typedef struct gpu { char line[LINE]; } Gpu;
typedef struct { U gpu, memory; } Utilization;
typedef struct { UL total, free, used; } Memory;
typedef struct { U version; UL total, reserved, free, used; } MemoryV2;
typedef struct { char legacy[16]; U domain, bus, device, id, subsystem; char text[32]; } Pci;
typedef struct { U pid; UL used; } ProcessV1;
typedef struct { U pid; UL used; U gi, ci; } ProcessV2;
typedef struct { void *device; UL type, data; U gi, ci; } Event;

static Gpu gpus[GPUS];
#ifndef OLD
static int told; /* events that were handed out */
#endif

static FILE *machine(void) {
    const char *path = getenv("MUSTER_AGENT_FAKE_GPUS");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LINE];
    while (file && fgets(line, LINE, file)) {
        if (!strncmp(line, "hang", 4)) for (;;) pause();
        if (!strncmp(line, "crash", 5)) raise(SIGSEGV);
    }
    if (file) rewind(file);
    return file;
}

/* The value of KEY= in a line, up to a blank; `name` up to the end. */
static int value(const char *line, const char *key, char *to) {
    char pattern[64];
    snprintf(pattern, sizeof pattern, " %s=", key);
    const char *at = strstr(line, pattern);
    if (!at) return 0;
    at += strlen(pattern);
    size_t length = strcspn(at, strcmp(key, "name") ? " \n" : "\n");
    memcpy(to, at, length);
    to[length] = 0;
    return strcmp(to, "-") != 0;
}

static int load(void) {
    FILE *file = machine();
    char line[LINE];
    int count = 0;
    while (file && count < GPUS && fgets(line, LINE, file))
        if (!strncmp(line, "gpu ", 4)) strcpy(gpus[count++].line, line);
    if (file) fclose(file);
    return count;
}

static int number(Gpu *gpu, const char *key, double *to) {
    char text[LINE];
    load();
    if (value(gpu->line, "lost", text) && !strcmp(text, "1")) return LOST;
    if (!value(gpu->line, key, text)) return NOT_SUPPORTED;
    if (*text == '!') return atoi(text + 1);
    *to = atof(text);
    return OK;
}

static int text(Gpu *gpu, const char *key, char *to, U room) {
    char found[LINE];
    double ignored;
    if (number(gpu, "bus", &ignored) == LOST) return LOST;
    if (!value(gpu->line, key, found)) return NOT_SUPPORTED;
    snprintf(to, room, "%s", found);
    return OK;
}

int nvmlInit_v2(void) {
    FILE *file = machine();
    char line[LINE];
    int code = OK;
    while (file && fgets(line, LINE, file)) sscanf(line, "init %d", &code);
    if (file) fclose(file);
    return code;
}
#ifndef OLD
int nvmlInitWithFlags(U flags) { return flags ? INVALID : nvmlInit_v2(); }
#endif
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : code == 999 ? "Unknown Error" : "Not Supported"; }

int nvmlDeviceGetCount_v2(U *count) {
    int code = nvmlInit_v2();
    *count = load();
    return code;
}
int nvmlDeviceGetHandleByIndex_v2(U index, Gpu **gpu) {
    if ((int)index >= load()) return INVALID;
    char code[LINE];
    if (value(gpus[index].line, "handle", code)) return atoi(code);
    *gpu = &gpus[index];
    return OK;
}
int nvmlDeviceGetUUID(Gpu *gpu, char *to, U room) { return text(gpu, "uuid", to, room); }
int nvmlDeviceGetName(Gpu *gpu, char *to, U room) { return text(gpu, "name", to, room); }
static int pci(Gpu *gpu, Pci *to) {
    char bus[LINE];
    int code = text(gpu, "bus", bus, LINE);
    if (code == OK) sscanf(bus, "%x:%x:%x", &to->domain, &to->bus, &to->device);
    return code;
}
int nvmlDeviceGetUtilizationRates(Gpu *gpu, Utilization *to) {
    double load = 0, memory = 0;
    int code = number(gpu, "util", &load);
    if (code == OK) code = number(gpu, "memutil", &memory);
    to->gpu = load;
    to->memory = memory;
    return code;
}
static int memory(Gpu *gpu, UL *total, UL *used) {
    double all = 0, some = 0;
    int code = number(gpu, "total", &all);
    if (code == OK) code = number(gpu, "used", &some);
    *total = (UL)all << 20;
    *used = (UL)some << 20;
    return code;
}
int nvmlDeviceGetMemoryInfo(Gpu *gpu, Memory *to) { /* counts what the driver reserves, here 500 MiB, as used */
    int code = memory(gpu, &to->total, &to->used);
#ifndef OLD
    to->used += 500ULL << 20;
#endif
    return code;
}
int nvmlDeviceGetTemperature(Gpu *gpu, int sensor, U *to) {
    double degrees = 0;
    int code = number(gpu, "temp", &degrees);
    *to = degrees;
    return sensor ? INVALID : code;
}
int nvmlDeviceGetPowerUsage(Gpu *gpu, U *to) {
    double watts = 0;
    int code = number(gpu, "power", &watts);
    *to = (U)(watts * 1000 + 0.5);
    return code;
}
int nvmlDeviceGetTotalEccErrors(Gpu *gpu, int kind, int counter, UL *to) {
    double errors = 0;
    int code = number(gpu, "ecc", &errors);
    *to = errors;
    return kind == 1 && counter == 0 ? code : INVALID;
}
int nvmlDeviceGetMigMode(Gpu *gpu, U *current, U *pending) {
    double mode = 0;
    int code = number(gpu, "mig", &mode);
    *current = *pending = mode;
    return code;
}

/* The processes of a GPU, at most `room`; how many there are. */
static int processes(Gpu *gpu, U room, void (*put)(void *, U, U, UL), void *to, U *count) {
    char uuid[LINE], whose[LINE], pid[LINE], mib[LINE], line[LINE];
    int code = text(gpu, "uuid", uuid, LINE);
    if (code != OK) return code;
    FILE *file = machine();
    U found = 0;
    while (file && fgets(line, LINE, file)) {
        if (strncmp(line, "process ", 8) || !value(line, "uuid", whose) || strcmp(whose, uuid)) continue;
        value(line, "pid", pid);
        UL used = value(line, "mib", mib) ? (UL)atoi(mib) << 20 : ~0ULL;
        if (found < room) put(to, found, atoi(pid), used);
        found++;
    }
    if (file) fclose(file);
    *count = found;
    return found > room ? TOO_SMALL : OK;
}
#ifdef OLD
static void put(void *to, U at, U pid, UL used) { ((ProcessV1 *)to)[at] = (ProcessV1){pid, used}; }
int nvmlDeviceGetComputeRunningProcesses(Gpu *gpu, U *count, ProcessV1 *to) {
    return processes(gpu, *count, put, to, count);
}
int nvmlDeviceGetPciInfo_v2(Gpu *gpu, Pci *to) { return pci(gpu, to); }
#else
static void put(void *to, U at, U pid, UL used) { ((ProcessV2 *)to)[at] = (ProcessV2){pid, used, ~0U, ~0U}; }
int nvmlDeviceGetComputeRunningProcesses_v3(Gpu *gpu, U *count, ProcessV2 *to) {
    return processes(gpu, *count, put, to, count);
}
int nvmlDeviceGetPciInfo_v3(Gpu *gpu, Pci *to) { return pci(gpu, to); }
int nvmlDeviceGetMemoryInfo_v2(Gpu *gpu, MemoryV2 *to) {
    if (to->version != (sizeof(MemoryV2) | 2 << 24)) return INVALID;
    return memory(gpu, &to->total, &to->used);
}

int nvmlEventSetCreate(void **set) { return *set = &told, OK; }
int nvmlDeviceRegisterEvents(Gpu *gpu, UL types, void *set) { return gpu && types == 8 && set ? OK : INVALID; }
int nvmlEventSetWait_v2(void *set, Event *to, U milliseconds) {
    char uuid[LINE], whose[LINE], number[LINE], line[LINE];
    FILE *file = machine();
    int at = 0, count = load();
    if (set != &told || milliseconds) return INVALID;
    while (file && fgets(line, LINE, file)) {
        if (strncmp(line, "xid ", 4) || at++ < told) continue;
        told++;
        value(line, "uuid", uuid);
        value(line, "number", number);
        for (int index = 0; index < count; index++)
            if (value(gpus[index].line, "uuid", whose) && !strcmp(uuid, whose))
                *to = (Event){&gpus[index], 8, atoi(number), ~0U, ~0U};
        fclose(file);
        return OK;
    }
    if (file) fclose(file);
    return TIMEOUT;
}
#endif
