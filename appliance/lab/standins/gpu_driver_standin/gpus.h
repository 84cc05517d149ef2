/*
 * STANDIN: the GPUs of a lab's node, as three files have them; see nvml.c.
 *
 *   gpus.json   the fact file of the node: a list of objects with "vendor_id" and "uuid"
 *   mig         one line for each MIG device: GPU, GPU instance, compute slices, memory in GiB;
 *               a line with a GPU alone switches MIG on, without instances
 *   unhealthy   one index a line: each reports XID 79 once to each waiter
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16, PARTS = 7, WORD = 64, TEXT = 65536, MEMORY_GIB = 40, XID = 79 };

struct part {
    int used, gpu, instance, slices, gib;
    char uuid[WORD + 16];
};
struct gpu {
    int index, mig;
    char uuid[WORD];
    struct part parts[PARTS];
};
struct waiter {
    int watched[MOST], told[MOST];
};

static struct gpu gpus[MOST];
static int count, users;

static const char *place(const char *variable, const char *otherwise)
{
    const char *given = getenv(variable);
    return given && *given ? given : otherwise;
}

static FILE *state(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", place("STANDIN_GPU_STATE", "/var/lib/standin-gpus"), name);
    return fopen(path, "r");
}

/* The next JSON string at or after *at, without escapes; *at is moved behind it. */
static int string_at(const char **at, char *into)
{
    const char *begin = strchr(*at, '"');
    const char *end = begin ? strchr(begin + 1, '"') : NULL;
    if (!end)
        return 0;
    size_t length = (size_t)(end - begin - 1) < WORD - 1 ? (size_t)(end - begin - 1) : WORD - 1;
    memcpy(into, begin + 1, length);
    into[length] = 0;
    *at = end + 1;
    return 1;
}

static void read_gpus(const char *at)
{
    char key[WORD], value[WORD], uuid[WORD] = "";
    int ours = 0;
    count = 0;
    for (; *at && count < MOST;) {
        if (*at == '}') {
            if (ours) {
                struct gpu *gpu = &gpus[count];
                memset(gpu, 0, sizeof *gpu);
                gpu->index = count++;
                snprintf(gpu->uuid, sizeof gpu->uuid, "%s", uuid);
                if (!*uuid)
                    snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-STANDIN-%d", gpu->index);
            }
            ours = 0, uuid[0] = 0, at++;
        } else if (*at == '"') {
            if (!string_at(&at, key))
                return;
            at += strspn(at, " \t\n:");
            if (*at != '"')
                continue;
            if (!string_at(&at, value))
                return;
            if (!strcmp(key, "vendor_id"))
                ours = !strcmp(value, "0x10de");
            if (!strcmp(key, "uuid"))
                strcpy(uuid, value);
        } else {
            at++;
        }
    }
}

static void read_mig(void)
{
    char line[128];
    for (int i = 0; i < count; i++)
        gpus[i].mig = 0, memset(gpus[i].parts, 0, sizeof gpus[i].parts);
    FILE *file = state("mig");
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        int index, instance, slices, gib;
        int found = sscanf(line, "%d %d %d %d", &index, &instance, &slices, &gib);
        if (found < 1 || index < 0 || index >= count)
            continue;
        struct gpu *gpu = &gpus[index];
        gpu->mig = 1;
        for (int i = 0; found == 4 && i < PARTS; i++) {
            struct part *part = &gpu->parts[i];
            if (part->used)
                continue;
            *part = (struct part){.used = 1, .gpu = index, .instance = instance,
                                  .slices = slices, .gib = gib};
            snprintf(part->uuid, sizeof part->uuid, "MIG-STANDIN-%d-%d", index, instance);
            break;
        }
    }
    fclose(file);
}

/* A handle is a pointer into one of the arrays: a GPU, or a MIG device. */
static struct gpu *gpu_of(nvmlDevice_t device)
{
    char *at = (char *)device.handle;
    return at >= (char *)gpus && at < (char *)(gpus + count) && (at - (char *)gpus) % (long)sizeof *gpus == 0
               ? (struct gpu *)at
               : NULL;
}

static struct part *part_of(nvmlDevice_t device)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < PARTS; j++)
            if ((void *)device.handle == (void *)&gpus[i].parts[j] && gpus[i].parts[j].used)
                return &gpus[i].parts[j];
    return NULL;
}
