/* devices.c -- `cameo devices`: the CPUs and GPUs here, and what they can do.
 * SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "base/cpu.h"
#include "cli/cli.h"
#include "cuda/devices.h"
#include "cuda/library.h"

typedef struct {
    bool json;
} devices_options;

static void print_cpu(void)
{
    const cm_cpu *c = cm_cpu_info();
    char l1[32], l2[32], l3[32];
    printf("cpu     %s\n", c->name);
    printf("        %d cores, %d threads; this process may use %d\n", c->cores, c->threads,
           cm_cpu_cores());
    printf("        isa %s%s%s%s\n", cm_isa_name(c->isa), c->vnni ? ", int8 dot products" : "",
           c->bf16 ? ", bf16 dot products" : "", c->f16c ? ", f16 conversions" : "");
    printf("        caches: L1 %s, L2 %s, L3 %s\n",
           cm_cli_bytes(l1, sizeof l1, (double)c->l1d_bytes),
           cm_cli_bytes(l2, sizeof l2, (double)c->l2_bytes),
           cm_cli_bytes(l3, sizeof l3, (double)c->l3_bytes));
}

static void print_gpus(const cm_gpu_list *list)
{
    if (list->n == 0)
        printf("cuda    none: %s\n", list->why_none);
    for (int i = 0; i < list->n; i++) {
        const cm_gpu *g = &list->gpu[i];
        char memory[32];
        printf("cuda:%-3d %s\n", i, g->name);
        printf("        sm_%d%d, %d SMs, %s, %d MHz core, %d MHz memory, driver %d.%d\n", g->major,
               g->minor, g->sms, cm_cli_bytes(memory, sizeof memory, (double)g->memory_bytes),
               g->core_mhz, g->memory_mhz, g->driver / 1000, g->driver % 1000 / 10);
    }
}

static void print_libraries(void)
{
    for (int i = 0; i < CM_LIBRARY_COUNT; i++) {
        const cm_library *l = cm_library_get((cm_library_id)i);
        if (l->handle)
            printf("        %s: %s\n", l->name, l->path);
        else
            printf("        %s was not found: %s\n", l->name, l->purpose);
    }
}

static json_t *libraries_json(void)
{
    json_t *all = json_object();
    for (int i = 0; i < CM_LIBRARY_COUNT; i++) {
        const cm_library *l = cm_library_get((cm_library_id)i);
        json_object_set_new(all, l->name, l->handle ? json_string(l->path) : json_null());
    }
    return all;
}

static void print_json(const cm_gpu_list *list)
{
    const cm_cpu *c = cm_cpu_info();
    json_t *gpus = json_array();
    for (int i = 0; i < list->n; i++) {
        const cm_gpu *g = &list->gpu[i];
        json_array_append_new(gpus, json_pack("{s:s, s:i, s:i, s:i, s:I, s:i, s:i, s:i}", "name",
                                              g->name, "major", g->major, "minor", g->minor, "sms",
                                              g->sms, "memory_bytes", (json_int_t)g->memory_bytes,
                                              "core_mhz", g->core_mhz, "memory_mhz", g->memory_mhz,
                                              "driver", g->driver));
    }
    json_t *all =
        json_pack("{s:{s:s, s:s, s:b, s:b, s:b, s:i, s:i, s:i, s:I, s:I, s:I}, s:o}", "cpu", "name",
                  c->name, "isa", cm_isa_name(c->isa), "vnni", c->vnni, "bf16", c->bf16, "f16c",
                  c->f16c, "cores", c->cores, "threads", c->threads, "usable", cm_cpu_cores(),
                  "l1d_bytes", (json_int_t)c->l1d_bytes, "l2_bytes", (json_int_t)c->l2_bytes,
                  "l3_bytes", (json_int_t)c->l3_bytes, "cuda", gpus);
    json_object_set_new(all, "libraries", libraries_json());
    json_dumpf(all, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(all);
}

static int run(cm_ctx *cx, void *options, int n_args, const char **args)
{
    const devices_options *o = options;
    if (n_args)
        return cm_cli_failed(
            cx, cm_fail(cx, CM_ERR_ARGUMENT, "devices takes no argument, found '%s'", args[0]));
    cm_gpu_list list;
    cm_gpu_list_probe(&list);
    if (o->json) {
        print_json(&list);
    } else {
        print_cpu();
        print_gpus(&list);
        print_libraries();
    }
    return CM_EXIT_OK;
}

static const cm_cli_option table[] = {
    {"json", NULL, "print JSON", CM_OPT_FLAG, offsetof(devices_options, json)},
};

const cm_cli_verb cm_verb_devices = {
    .name = "devices",
    .summary = "the CPUs and GPUs here, and what they can do",
    .usage = "[--json]",
    .details =
        "Prints this machine's CPU (instruction sets, caches, cores this process may use) and the\n"
        "NVIDIA GPUs that the driver shows. CUDA_VISIBLE_DEVICES is respected. Then NVIDIA's\n"
        "libraries: where each was found, or what its absence means. They are looked for in the\n"
        "folders of CAMEO_CUDA_PATH, where the loader looks, in CUDA_HOME and CUDA_PATH, in the\n"
        "toolkit's usual folders and in those of Python wheels.",
    .examples = "  cameo devices\n  cameo devices --json\n",
    .options_bytes = sizeof(devices_options),
    .options = table,
    .n_options = CM_COUNT(table),
    .run = run,
};
