/*
 * STANDIN for NVIDIA's management library (NVML): what the device plug-in asks a driver for.
 *
 * The GPUs are those of the lab's fact file, MIG and health those of two files that a test may
 * write. Each process reads them at nvmlInit, and again before it answers about MIG or events, so
 * that all processes of a node see one truth. Functions that are not here are made when this is
 * compiled, and say "not supported".
 */
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "nvml.h"

#include "gpus.h"

static nvmlReturn_t words(char *into, unsigned int length, const char *text)
{
    if (!into)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (strlen(text) >= length)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(into, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    static char text[TEXT];
    (void)flags;
    if (users++)
        return NVML_SUCCESS;
    FILE *file = fopen(place("STANDIN_GPU_FACTS", "/etc/appliance-lab/facts/gpus.json"), "r");
    if (!file)
        return users = 0, NVML_ERROR_DRIVER_NOT_LOADED;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    read_gpus(text);
    read_mig();
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }
nvmlReturn_t nvmlShutdown(void)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    return users--, NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t code)
{
    static char text[WORD];
    snprintf(text, sizeof text, "STANDIN error %d", (int)code);
    return code == NVML_SUCCESS ? "STANDIN success" : text;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *into, unsigned int n) { return words(into, n, "525.60.13"); }
nvmlReturn_t nvmlSystemGetNVMLVersion(char *into, unsigned int n) { return words(into, n, "12.525.60.13"); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *into) { return *into = 12000, NVML_SUCCESS; }
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *into) { return *into = 12000, NVML_SUCCESS; }

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *into)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    *into = (unsigned int)count;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned int *into) { return nvmlDeviceGetCount_v2(into); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *into)
{
    if (index >= (unsigned int)count)
        return NVML_ERROR_INVALID_ARGUMENT;
    into->handle = (void *)&gpus[index];
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *into)
{
    return nvmlDeviceGetHandleByIndex_v2(index, into);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *into)
{
    for (int i = 0; i < count; i++) {
        if (!strcmp(gpus[i].uuid, uuid))
            return into->handle = (void *)&gpus[i], NVML_SUCCESS;
        for (int j = 0; j < PARTS; j++)
            if (gpus[i].parts[j].used && !strcmp(gpus[i].parts[j].uuid, uuid))
                return into->handle = (void *)&gpus[i].parts[j], NVML_SUCCESS;
    }
    return NVML_ERROR_NOT_FOUND;
}

#define GPU_OR_REFUSE(gpu, device)           \
    struct gpu *gpu = gpu_of(device);        \
    if (!gpu)                                \
        return NVML_ERROR_INVALID_ARGUMENT
#define PART_OR_REFUSE(part, device)         \
    struct part *part = part_of(device);     \
    if (!part)                               \
        return NVML_ERROR_INVALID_ARGUMENT

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *into, unsigned int length)
{
    struct part *part = part_of(device);
    if (part)
        return words(into, length, part->uuid);
    GPU_OR_REFUSE(gpu, device);
    return words(into, length, gpu->uuid);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *into, unsigned int length)
{
    (void)device;
    return words(into, length, "STANDIN GPU");
}

nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *into, unsigned int length)
{
    char serial[WORD];
    GPU_OR_REFUSE(gpu, device);
    snprintf(serial, sizeof serial, "STANDIN-%d", gpu->index);
    return words(into, length, serial);
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *into)
{
    GPU_OR_REFUSE(gpu, device);
    return *into = (unsigned int)gpu->index, NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *into)
{
    return nvmlDeviceGetIndex(device, into);
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *into)
{
    struct part *part = part_of(device);
    into->total = (unsigned long long)(part ? part->gib : MEMORY_GIB) << 30;
    into->free = into->total;
    into->used = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *into)
{
    GPU_OR_REFUSE(gpu, device);
    memset(into, 0, sizeof *into);
    into->bus = (unsigned int)gpu->index + 1;
    into->pciDeviceId = 0x10de;
    snprintf(into->busId, sizeof into->busId, "%08X:%02X:00.0", 0u, into->bus);
    snprintf(into->busIdLegacy, sizeof into->busIdLegacy, "%04X:%02X:00.0", 0u, into->bus);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *into)
{
    return nvmlDeviceGetPciInfo_v3(device, into);
}
nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *into)
{
    return nvmlDeviceGetPciInfo_v3(device, into);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    (void)device;
    return *major = 8, *minor = 0, NVML_SUCCESS;
}

/* No two GPUs are nearer to each other than others: the choice among them is the plug-in's. */
nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t a, nvmlDevice_t b,
                                                 nvmlGpuTopologyLevel_t *into)
{
    (void)a, (void)b;
    return *into = NVML_TOPOLOGY_NODE, NVML_SUCCESS;
}

/* --- MIG --------------------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *now, unsigned int *pending)
{
    GPU_OR_REFUSE(gpu, device);
    read_mig();
    *now = *pending = gpu->mig ? NVML_DEVICE_MIG_ENABLE : NVML_DEVICE_MIG_DISABLE;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *into)
{
    GPU_OR_REFUSE(gpu, device);
    read_mig();
    return *into = gpu->mig ? PARTS : 0, NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *into)
{
    GPU_OR_REFUSE(gpu, device);
    if (index >= PARTS || !gpu->parts[index].used)
        return NVML_ERROR_NOT_FOUND;
    into->handle = (void *)&gpu->parts[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *into)
{
    return *into = part_of(device) != NULL, NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t device, nvmlDevice_t *into)
{
    PART_OR_REFUSE(part, device);
    return into->handle = (void *)&gpus[part->gpu], NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *into)
{
    PART_OR_REFUSE(part, device);
    return *into = (unsigned int)part->instance, NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *into)
{
    PART_OR_REFUSE(part, device);
    return *into = 0, NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *into)
{
    struct part *part = part_of(device);
    if (!part)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(into, 0, sizeof *into);
    into->multiprocessorCount = 14u * (unsigned int)part->slices;
    into->gpuInstanceSliceCount = into->computeInstanceSliceCount = (unsigned int)part->slices;
    into->memorySizeMB = (unsigned long long)part->gib << 10;
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *into)
{
    return nvmlDeviceGetAttributes_v2(device, into);
}

/* Profiles by their index in nvml.h; the ids are those of an A100. */
static const struct { unsigned int slices, id, gib; } PROFILES[] = {
    {1, 19, 5}, {2, 14, 10}, {3, 9, 20}, {4, 5, 20}, {7, 0, 40},
};
enum { PROFILE_COUNT = sizeof PROFILES / sizeof *PROFILES };

static unsigned int profile_of(int slices)
{
    for (unsigned int i = 0; i < PROFILE_COUNT; i++)
        if (PROFILES[i].slices == (unsigned int)slices)
            return i;
    return 0;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
                                                 nvmlGpuInstanceProfileInfo_t *into)
{
    GPU_OR_REFUSE(gpu, device);
    if (profile >= PROFILE_COUNT)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(into, 0, sizeof *into);
    into->id = PROFILES[profile].id;
    into->sliceCount = PROFILES[profile].slices;
    into->instanceCount = 7 / PROFILES[profile].slices;
    into->multiprocessorCount = 14 * PROFILES[profile].slices;
    into->memorySizeMB = (unsigned long long)PROFILES[profile].gib << 10;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *into)
{
    GPU_OR_REFUSE(gpu, device);
    for (int i = 0; i < PARTS; i++)
        if (gpu->parts[i].used && (unsigned int)gpu->parts[i].instance == id)
            return into->handle = (void *)&gpu->parts[i], NVML_SUCCESS;
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t instance, nvmlGpuInstanceInfo_t *into)
{
    struct part *part = (void *)instance.handle;
    memset(into, 0, sizeof *into);
    into->device.handle = (void *)&gpus[part->gpu];
    into->id = (unsigned int)part->instance;
    into->profileId = PROFILES[profile_of(part->slices)].id;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t instance, unsigned int id,
                                                   nvmlComputeInstance_t *into)
{
    if (id)
        return NVML_ERROR_NOT_FOUND;
    into->handle = (void *)instance.handle;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t instance,
                                           nvmlComputeInstanceInfo_t *into)
{
    struct part *part = (void *)instance.handle;
    memset(into, 0, sizeof *into);
    into->device.handle = (void *)&gpus[part->gpu];
    into->gpuInstance.handle = (void *)part;
    into->profileId = profile_of(part->slices);
    return NVML_SUCCESS;
}
nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t instance, nvmlComputeInstanceInfo_t *into)
{
    return nvmlComputeInstanceGetInfo_v2(instance, into);
}

nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t instance,
                                                          unsigned int profile, unsigned int engine,
                                                          nvmlComputeInstanceProfileInfo_t *into)
{
    (void)instance;
    if (profile >= PROFILE_COUNT || engine)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(into, 0, sizeof *into);
    into->id = profile;
    into->sliceCount = PROFILES[profile].slices;
    into->instanceCount = 1;
    return NVML_SUCCESS;
}

/* --- Events ------------------------------------------------------------------------------------ */

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *into)
{
    into->handle = calloc(1, sizeof(struct waiter));
    return into->handle ? NVML_SUCCESS : NVML_ERROR_MEMORY;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    free((void *)set.handle);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *into)
{
    GPU_OR_REFUSE(gpu, device);
    return *into = nvmlEventTypeXidCriticalError, NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    GPU_OR_REFUSE(gpu, device);
    if (types & ~(unsigned long long)nvmlEventTypeXidCriticalError)
        return NVML_ERROR_NOT_SUPPORTED;
    ((struct waiter *)(void *)set.handle)->watched[gpu->index] = 1;
    return NVML_SUCCESS;
}

/* The file stays as it is: each waiter remembers what it was told, so none eats another's event. */
static int fallen(struct waiter *waiter)
{
    int listed[MOST] = {0}, index;
    FILE *file = state("unhealthy");
    while (file && fscanf(file, "%d", &index) == 1)
        if (index >= 0 && index < count)
            listed[index] = 1;
    if (file)
        fclose(file);
    for (int i = 0; i < count; i++)
        if (!listed[i])
            waiter->told[i] = 0;
        else if (waiter->watched[i] && !waiter->told[i])
            return waiter->told[i] = 1, i;
    return -1;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *into, unsigned int milliseconds)
{
    const struct timespec pause = {0, 100000000};
    for (long left = milliseconds;; left -= 100) {
        int index = fallen((void *)set.handle);
        if (index >= 0) {
            memset(into, 0, sizeof *into);
            into->device.handle = (void *)&gpus[index];
            into->eventType = nvmlEventTypeXidCriticalError;
            into->eventData = XID;
            into->gpuInstanceId = into->computeInstanceId = 0xFFFFFFFF;
            return NVML_SUCCESS;
        }
        if (left <= 0)
            return NVML_ERROR_TIMEOUT;
        nanosleep(&pause, NULL);
    }
}
nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *into, unsigned int milliseconds)
{
    return nvmlEventSetWait_v2(set, into, milliseconds);
}
