/* facts.c -- what a class of GPUs can do, for costs.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda/device.h"

/* Rates that kernels reach, not those of data sheets: about four fifths of them. sm_90 was measured (H200). */
static const struct {
    int least; /* level */
    cm_gpu_facts facts;
} classes[] = {
    {750, {75, 40, 64 << 10, 4 << 20, 0.25e3, 45, 7, 7, 2500}},
    {800, {80, 108, 163 << 10, 40 << 20, 1.4e3, 250, 125, 17, 2000}},
    {860, {86, 84, 99 << 10, 6 << 20, 0.75e3, 60, 30, 25, 2000}},
    {890, {89, 128, 99 << 10, 64 << 20, 0.9e3, 150, 70, 65, 1800}},
    {900, {90, 132, 227 << 10, 50 << 20, 4.3e3, 790, 400, 55, 1500}},
    {1000, {100, 148, 227 << 10, 126 << 20, 6.5e3, 1700, 850, 65, 1500}},
    {1200, {120, 170, 99 << 10, 96 << 20, 1.5e3, 350, 170, 90, 1500}},
};

void cm_gpu_class_facts(int level, cm_gpu_facts *out)
{
    int i = 0;
    while (i + 1 < CM_COUNT(classes) && classes[i + 1].least <= level)
        i++;
    *out = classes[i].facts;
    out->sm = level / 10;
}

void cm_gpu_facts_of(const cm_target *t, cm_gpu_facts *out)
{
    if (!cm_device_facts(t, out))
        cm_gpu_class_facts(t->level, out);
}

/* Layers of ViT and BERT at batch 1, run one after the other, take that much longer each than run into each other. */
double cm_gpu_apart_ns(const cm_problem *p)
{
    return p->target.level >= 900 ? 1900 : 0;
}
