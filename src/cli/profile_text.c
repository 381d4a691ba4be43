/* profile_text.c -- a profile as text and as CSV.
 * SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cli/profile.h"

static double giga(double v)
{
    return v * 1e-9;
}

static const char *tactic_of(const cm_profile_layer *l)
{
    return l->facts.tactic ? l->facts.tactic : "";
}

static const char *op_of(const cm_profile_layer *l)
{
    return l->step->op ? l->step->op : "copy";
}

static void print_machine(const cm_profile *p)
{
    const cm_limits *m = &p->limits;
    char target[64];
    printf("%s on %s with %d thread%s: %d layers, median of %d runs\n", p->path,
           cm_target_text(target, sizeof target, &p->target), p->threads,
           p->threads == 1 ? "" : "s", p->n_layers, p->n_runs);
    printf("the machine's limits, measured now: f32 %.0f GFLOP/s", giga(m->f32_ops));
    if (m->bf16_ops > 0)
        printf(", bf16 %.0f", giga(m->bf16_ops));
    if (m->int8_ops > 0)
        printf(", int8 %.0f", giga(m->int8_ops));
    printf("; memory %.1f GB/s", giga(m->dram_bytes));
    if (m->shared_bytes > 0)
        printf(", shared cache %.1f", giga(m->shared_bytes));
    printf(", own cache %.1f", giga(m->near_bytes));
    printf(p->launch_ns > 0 ? "; starting %s %.1f us\n" : "\n",
           p->target.kind == CM_DEVICE_CPU ? "the threads" : "a kernel", p->launch_ns * 1e-3);
}

static void print_layer(const cm_profile_layer *l)
{
    printf("%10.4f %6.1f%% %9.1f %8.1f ", l->ms, 100 * l->share, giga(l->ops_rate),
           giga(l->bytes_rate));
    if (l->fraction > 0)
        printf("%6.0f%%", 100 * l->fraction);
    else
        printf("%7s", "");
    printf("  %-9s %-22s %-30s %*s%s\n", cm_bound_name(l->bound), op_of(l), tactic_of(l),
           2 * l->depth, "", l->step->name);
}

static void print_totals(const cm_profile *p)
{
    printf("\nby kind %13s %8s %7s %10s %10s\n", "layers", "ms", "share", "GFLOP", "MB");
    for (int i = 0; i < p->n_totals; i++) {
        const cm_profile_total *t = &p->totals[i];
        printf("  %-12s %6d %8.3f %6.1f%% %10.3f %10.2f\n", t->kind, t->n, t->ms, 100 * t->share,
               giga(t->ops), t->bytes * 1e-6);
    }
}

static void print_conversions(const cm_profile *p)
{
    int n = 0;
    double ms = 0;
    char bytes[32];
    for (int i = 0; i < p->n_layers; i++) {
        const cm_profile_layer *l = &p->layers[i];
        bool move = !strcmp(l->kind, "move") || !strcmp(l->kind, "copy");
        if (!l->facts.n_conversions && !move)
            continue;
        double own = move ? l->ms : l->conversion_ms;
        double moved = move ? l->work.in_bytes + l->work.weight_bytes + l->work.out_bytes
                            : l->work.conversion_bytes;
        if (!n++)
            printf("\nconversions and copies\n");
        ms += own;
        printf("  %8.4f ms %9s  %s '%s'%s\n", own, cm_cli_bytes(bytes, sizeof bytes, moved),
               op_of(l), l->step->name, move ? "" : ": inputs into another layout first");
    }
    if (n)
        printf("  %8.4f ms in all, %.1f%% of the run\n", ms, 100 * ms / p->whole_ms);
    else
        printf("\nno conversions or copies are left in the plan\n");
}

static void print_owner(const cm_profile *p, const cm_memory_block *b)
{
    char bytes[32];
    const char *name = b->value >= 0 ? cm_engine_plan(p->engine)->values[b->value].name : "";
    printf("  %9s  %s%s%s of %s '%s'\n", cm_cli_bytes(bytes, sizeof bytes, (double)b->bytes),
           b->value >= 0 ? "'" : "workspace", name, b->value >= 0 ? "'" : "",
           b->step >= 0 ? op_of(&p->layers[b->step]) : "?",
           b->step >= 0 ? p->layers[b->step].step->name : "?");
}

/* The largest blocks that are alive at the peak. */
static void print_memory(const cm_profile *p)
{
    enum { MOST = 6 };
    char arena[32], context[32], weights[32], peak[32];
    printf("\nmemory: weights %s, context %s, of that arena %s",
           cm_cli_bytes(weights, sizeof weights, (double)p->weight_bytes),
           cm_cli_bytes(context, sizeof context, (double)p->context_bytes),
           cm_cli_bytes(arena, sizeof arena, (double)p->arena_bytes));
    if (!p->n_blocks) {
        printf("\n");
        return;
    }
    printf("; at the peak %s are in use\n",
           cm_cli_bytes(peak, sizeof peak, p->n_positions ? p->live[p->peak] : 0));
    double below = -1;
    for (int n = 0; n < MOST; n++) {
        const cm_memory_block *largest = NULL;
        for (int i = 0; i < p->n_blocks; i++) {
            const cm_memory_block *b = &p->blocks[i];
            double key = (double)b->bytes * 65536 - i; /* equal ones in their order */
            bool alive = b->first <= p->peak && p->peak <= b->last && b->bytes;
            if (alive && (below < 0 || key < below) &&
                (!largest || key > (double)largest->bytes * 65536 - (double)(largest - p->blocks)))
                largest = b;
        }
        if (!largest)
            break;
        below = (double)largest->bytes * 65536 - (double)(largest - p->blocks);
        print_owner(p, largest);
    }
}

void cm_profile_print(const cm_profile *p, const int *ranked, int64_t most)
{
    print_machine(p);
    printf("\n%10s %7s %9s %8s %7s  %-9s %-22s %-30s %s\n", "ms", "share", "GFLOP/s", "GB/s",
           "limit", "bound by", "operator", "tactic", "layer");
    for (int i = 0; i < p->n_layers && i < most; i++)
        print_layer(&p->layers[ranked[i]]);
    if (most < p->n_layers)
        printf("%10s and %lld more: --layers %d\n", "", (long long)(p->n_layers - most),
               p->n_layers);
    print_totals(p);
    print_conversions(p);
    print_memory(p);
    if (p->target.kind != CM_DEVICE_CPU)
        printf("\ncopies to the GPU %.4f ms, from it %.4f ms; with them an unwatched run takes "
               "%.4f ms "
               "by the host's clock",
               p->up_ms, p->down_ms, p->host_ms);
    printf("\nlayers take %.1f%% of a run that is watched, %.4f ms%s; unwatched it takes %.4f ms "
           "(%+.1f%%)\n",
           100 * p->covered, p->whole_ms, p->device_clock ? " by the GPU's clock" : "", p->plain_ms,
           100 * (p->whole_ms / p->plain_ms - 1));
    double limit = 0;
    for (int i = 0; i < p->n_layers; i++)
        limit += p->layers[i].is_main ? p->layers[i].limit_ms : 0;
    if (limit > 1.2 * p->whole_ms)
        printf("Warning: layers are faster than the limit that was measured: other programs held "
               "the machine back meanwhile. Profile again when it is idle.\n");
    if (p->covered < 0.95)
        printf("Warning: %.1f%% of the run are between layers: they are so short that looking at "
               "the clock counts. Take shares as a hint only.\n",
               100 * (1 - p->covered));
}

/* ---- CSV ---------------------------------------------------------------------------------------- */

static void quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

void cm_profile_print_csv(const cm_profile *p)
{
    printf("index,layer,operator,kind,tactic,calls,ms,min_ms,max_ms,share,gflop,in_bytes,weight_"
           "bytes,out_bytes,gflop_s,gb_s,limit_ms,fraction,bound,conversions,conversion_ms,output,"
           "nodes\n");
    for (int i = 0; i < p->n_layers; i++) {
        const cm_profile_layer *l = &p->layers[i];
        printf("%d,", i);
        quoted(l->step->name);
        printf(",%s,%s,%s,%lld,%.6g,%.6g,%.6g,%.6g,%.6g,%.0f,%.0f,%.0f,%.6g,%.6g,%.6g,%.4g,%s,%d,%."
               "6g,",
               op_of(l), l->kind, tactic_of(l), (long long)l->calls, l->ms, l->min_ms, l->max_ms,
               l->share, giga(l->work.ops), l->work.in_bytes, l->work.weight_bytes,
               l->work.out_bytes, giga(l->ops_rate), giga(l->bytes_rate), l->limit_ms, l->fraction,
               cm_bound_name(l->bound), l->facts.n_conversions, l->conversion_ms);
        quoted(l->step->n_out && l->out[0] ? l->out[0] : "");
        putchar(',');
        for (int k = 0; k < l->step->n_from; k++)
            printf("%s%s", k ? ";" : "", l->step->from[k]);
        putchar('\n');
    }
}
