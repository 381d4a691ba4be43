/* networks.h -- a network in a context of the CPU and in one of the GPU, where there is one.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_TESTS_OP_NETWORKS_H
#define CM_TESTS_OP_NETWORKS_H

#include "op/harness.h"
#include "lowered.h"
#include "runtime/device.h"

typedef struct {
    cm_arena arena, scratch;
    cm_ctx cx;
    cm_engine *e;
    cm_context *c[2]; /* of the CPU; of the GPU, NULL: there is none */
    float slack;      /* of each element, relative to the largest: sums of products that cancel */
} fixture;

static void open_network(fixture *f, const char *text)
{
    static const cm_target cuda = {CM_DEVICE_CUDA, 0, 0};
    memset(f, 0, sizeof *f);
    cm_arena_init(&f->arena, NULL);
    cm_arena_init(&f->scratch, NULL);
    f->cx = (cm_ctx){.arena = &f->arena, .scratch = &f->scratch};
    const cm_context_options here = {.threads = 1}, there = {.threads = 1, .target = &cuda};
    open_lowered(&f->cx, &f->arena, text, &f->e);
    if (cm_context_create(&f->cx, f->e, &here, &f->c[0]) != CM_OK)
        fail_msg("%s", f->cx.message);
    if (op_targets()->stream && cm_context_create(&f->cx, f->e, &there, &f->c[1]) != CM_OK)
        fail_msg("%s", f->cx.message);
}

static void close_network(fixture *f)
{
    for (int i = 0; i < 2; i++)
        cm_context_destroy(f->c[i]);
    cm_engine_release(f->e);
    cm_arena_deinit(&f->arena);
    cm_arena_deinit(&f->scratch);
}

#endif
