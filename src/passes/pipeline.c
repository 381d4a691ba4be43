/* pipeline.c -- the whole optimiser, in order. Read this file to know what we do.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "passes/passes.h"

/* X(name, phase, repeat, tolerance, what): tolerance is how far it may move an answer, relative to its scale;
 * `what` is its line in docs/passes.md.
 * clang-format off */
#define PASSES(X)                                                                                  \
    /* Clean: less to do, and one way of saying it. */                                             \
    X(dce, CLEAN, true, 0, "drop what nobody reads")                                               \
    X(dims_from_constraints, CLEAN, true, 0, "sizes that the network itself forces")               \
    X(crop_weights, CLEAN, false, 0, "constants without what no shape reaches")                    \
    X(move_qdq, CLEAN, true, 0, "values are moved as integers")                                    \
    X(fold_constants, CLEAN, false, 0, "compute early what depends on constants only")             \
    X(identity, CLEAN, true, 0, "drop nodes that change nothing")                                  \
    X(inline_if, CLEAN, true, 0, "branches that are known to be taken")                            \
    X(loop_constants, CLEAN, true, 0, "carried values that nothing changes")                       \
    X(inline_loop, CLEAN, true, 0, "loops that run once or never")                                 \
    X(hoist_invariants, CLEAN, true, 0, "out of a body what is the same each time")                \
    X(thin_control, CLEAN, true, 0, "control nodes without what nobody reads")                     \
    X(unroll_loops, CLEAN, true, 0, "short loops as their bodies in a row")                        \
    X(unroll_scans, CLEAN, true, 0, "short scans likewise")                                        \
    X(control_fold, CLEAN, false, 0, "constants that all this made")                               \
    X(control_identity, CLEAN, true, 0, "and what does nothing now")                               \
    X(drop_qdq, CLEAN, true, 0, "quantised values are moved as they are")                          \
    X(fuse_lookup, CLEAN, false, 0, "functions of a byte as a table")                              \
    X(fuse_qdq, CLEAN, false, 1e-6, "and computed with as integers")                               \
    X(qdq_dce, CLEAN, true, 0, "what stood around them")                                           \
    X(expand_fused, CLEAN, false, 1e-6, "fused products as plain nodes")                           \
    X(loss_forms, CLEAN, false, 1e-6, "losses as plain nodes")                                     \
    X(norm_forms, CLEAN, false, 1e-5, "normalisations without kernels likewise")                   \
    X(plain_forms, CLEAN, false, 1e-6, "and other operators without kernels")                      \
    X(parts_as_bytes, CLEAN, false, 0, "elements of less than a byte are moved as bytes")          \
    X(window_forms, CLEAN, false, 1e-6, "those over windows as ones that have some")               \
    X(deform_forms, CLEAN, false, 1e-4, "deformable convolutions as samples and a product")        \
    X(fourier_forms, CLEAN, false, 1e-5, "short Fourier transforms as products")                   \
    X(canonical_gemm, CLEAN, false, 1e-6, "one form of a product: MatMul, then plain nodes")       \
    X(cse, CLEAN, false, 0, "compute the same thing once")                                         \
    X(merge_casts, CLEAN, true, 0, "one cast for two")                                             \
    X(compare_bool, CLEAN, false, 0, "bools that were compared as numbers")                        \
    X(scatter_slice, CLEAN, false, 0, "slices that are overwritten, put together")                 \
    X(constant_reshape, CLEAN, false, 0, "reshapes without shape arithmetic")                      \
    X(unflatten_products, CLEAN, true, 0, "rows in the shape that they come in")                   \
    X(split_first, CLEAN, true, 0, "axes split before they are transposed")                        \
    X(merge_views, CLEAN, true, 0, "one reshape for a chain")                                      \
    X(sink_transposes, CLEAN, true, 1e-6, "transposes down, towards each other")                   \
    X(merge_transposes, CLEAN, true, 0, "one transpose for two")                                   \
    X(dilate_conv, CLEAN, false, 1e-6, "convolutions of every second pixel with dilations")        \
    X(merge_slices, CLEAN, true, 0, "one slice for two")                                           \
    X(slices_to_depth, CLEAN, false, 0, "every second pixel as channels")                          \
    X(slices_to_split, CLEAN, false, 0, "slices that together are the whole")                      \
    X(concat_split, CLEAN, true, 0, "put together and taken apart again")                          \
    X(sink_expand, CLEAN, true, 0, "work before a tensor is enlarged")                             \
    X(hoist_table, CLEAN, true, 1e-6, "work on rows of a constant table: on the whole, now")       \
    X(explicit_pads, CLEAN, false, 0, "padding in numbers")                                        \
    X(transposed_conv, CLEAN, false, 1e-6, "transposed convolutions of stride 1 as plain ones")    \
    X(transposed_blocks, CLEAN, false, 1e-6, "those of windows side by side as ones of points")    \
    X(conv_forms, CLEAN, false, 0, "convolutions along one axis with one")                         \
    X(crop_kernel, CLEAN, false, 0, "kernels without what only sees padding")                      \
    X(move_dce, CLEAN, true, 0, "before readers are counted")                                      \
    X(bias_before_heads, CLEAN, false, 1e-6, "offsets per head into the product before")           \
    X(factor_products, CLEAN, false, 1e-6, "one product for two of the same operand")              \
    X(bias_after_product, CLEAN, false, 1e-6, "offsets behind a product with constants")           \
    X(refold, CLEAN, false, 0, "constants that the moves made")                                    \
    X(reidentity, CLEAN, true, 0, "what they left doing nothing")                                  \
    X(fold_pad, CLEAN, true, 0, "pads into convolutions and pools")                                \
    X(fold_batch_norm, CLEAN, true, 1e-5, "into weights, or a factor and an offset")               \
    X(fold_scale, CLEAN, true, 1e-6, "factors and offsets into weights and biases")                \
    X(fuse_integer_matmul, CLEAN, false, 1e-6, "products of integers and their factor")            \
    X(clean_dce, CLEAN, true, 0, "and what nobody reads any more")                                 \
    /* Compose: activations and normalisations from their pieces. */                               \
    X(fuse_clip, FUSE, true, 0, "one Clip for bounds in a row")                                    \
    X(fuse_gelu, FUSE, false, 1e-5, "GELU, exact and by tanh")                                     \
    X(fuse_silu, FUSE, false, 1e-6, "Sigmoid, Swish")                                              \
    X(fuse_mish, FUSE, false, 1e-6, "Softplus, Mish")                                              \
    X(fuse_hardswish, FUSE, false, 1e-5, "HardSigmoid, HardSwish")                                 \
    X(fuse_leaky, FUSE, false, 1e-6, "LeakyRelu, PRelu")                                           \
    X(fuse_softmax, FUSE, false, 1e-6, "Softmax, LogSoftmax")                                      \
    X(fuse_l2_norm, FUSE, false, 1e-6, "rows divided by their length")                             \
    X(activation_dce, FUSE, true, 0, "the pieces")                                                 \
    X(fuse_instance_norm, FUSE, false, 1e-5, "mean and variance of each channel")                  \
    X(fuse_layer_norm, FUSE, false, 1e-5, "mean and variance over the last axes")                  \
    X(fuse_channel_norm, FUSE, false, 1e-5, "mean and variance over another axis, transposed")     \
    X(fuse_rms_norm, FUSE, false, 1e-5, "mean square over the last axes")                          \
    X(fuse_group_norm, FUSE, false, 1e-6, "groups of channels, reshaped")                          \
    X(norm_dce, FUSE, true, 0, "the pieces")                                                       \
    X(norm_sink, FUSE, true, 1e-6, "transposes down from normalisations")                          \
    X(norm_merge, FUSE, true, 0, "one for two")                                                    \
    X(sink_shared, FUSE, true, 1e-6, "transposes that several nodes read")                         \
    X(patches_as_product, FUSE, false, 1e-6, "convolutions of patches that are read as rows")      \
    X(conv_as_product, FUSE, false, 1e-6, "convolutions of points that are read transposed")       \
    X(conv_sink, FUSE, true, 1e-6, "the transposes behind those")                                  \
    X(conv_merge, FUSE, true, 0, "meet others")                                                    \
    X(conv_identity, FUSE, true, 0, "and cancel")                                                  \
    X(conv_dce, FUSE, true, 0, "or have no reader")                                                \
    X(fuse_embed_norm, FUSE, false, 1e-6, "embeddings, their sum and its normalisation")           \
    /* Fuse: composite operators, then what may follow inside the same kernel. */                  \
    X(fuse_rotary, FUSE, false, 1e-6, "rotary position embeddings")                                \
    X(rotary_forms, FUSE, false, 1e-6, "rotary operators as the one with kernels")                 \
    X(heads_product, FUSE, false, 0, "heads where a plain product reads them")                     \
    X(heads_dce, FUSE, true, 0, "the product that it replaced")                                    \
    X(scores_apart, FUSE, false, 1e-6, "attention's scores that are read by nodes of their own")   \
    X(attention_forms, FUSE, false, 1e-6, "attention operators as the one with kernels")           \
    X(fuse_attention, FUSE, false, 1e-6, "softmax(q k^T) v as one node")                           \
    X(attention_dce, FUSE, true, 0, "its parts, before readers are counted")                       \
    X(fuse_cache, FUSE, false, 0, "past and present keys and values into it")                      \
    X(fuse_qkv, FUSE, false, 0, "products of one input as one product")                            \
    X(merge_siblings, FUSE, false, 0, "and convolutions of one input as one")                      \
    X(attention_unflatten, FUSE, true, 0, "what reads an attention's rows")                        \
    X(attention_views, FUSE, true, 0, "one reshape for a chain")                                   \
    X(attention_identity, FUSE, true, 0, "and what does nothing now")                              \
    X(fuse_present, FUSE, false, 0, "keys and values handed out by the attention")                 \
    X(qkv_dce, FUSE, true, 0, "those that it replaced")                                            \
    X(batch_first, FUSE, false, 0, "attentions without transposes around")                         \
    X(batch_first_dce, FUSE, true, 0, "those")                                                     \
    X(absorb_transpose, FUSE, true, 1e-6, "products read operands transposed")                     \
    X(absorb_axes, FUSE, false, 1e-6, "in any order of axes")                                      \
    X(hoist_slice, FUSE, true, 0, "rows that nobody reads are not computed")                       \
    X(slice_cse, FUSE, false, 0, "so that both readers of a sum")                                  \
    X(rehoist_slice, FUSE, true, 0, "let it climb on")                                             \
    X(slice_dce, FUSE, true, 0, "the whole rows")                                                  \
    X(precision, PRECISION, false, 5e-2, "float16 or bfloat16, when asked for")                    \
    X(precision_casts, PRECISION, true, 0, "casts that meet")                                      \
    X(precision_identity, PRECISION, true, 0, "and cancel")                                        \
    X(precision_dce, PRECISION, true, 0, "or have no reader")                                      \
    X(fuse_fake_quant, FUSE, false, 0, "rounding to steps that nobody reads as integers")          \
    X(strength, FUSE, true, 1e-6, "products for quotients, one number for two")                    \
    X(fuse_epilogue, FUSE, true, 1e-5, "bias, activation, residual onto what makes the value")     \
    X(fuse_skip_norm, FUSE, false, 1e-6, "sums that no product took onto normalisations")          \
    X(fuse_pointwise, FUSE, false, 1e-5, "what is left of pointwise nodes, in groups")             \
    X(fuse_reduce, FUSE, false, 1e-6, "pointwise work into the reduction that reads it")           \
    X(fuse_dce, FUSE, true, 0, "drop what the fusions left over")
/* clang-format on */

/* A pass that runs again later in the pipeline has a second name there. */
#define cm_pass_activation_dce      cm_pass_dce
#define cm_pass_move_dce            cm_pass_dce
#define cm_pass_qdq_dce             cm_pass_dce
#define cm_pass_norm_dce            cm_pass_dce
#define cm_pass_norm_sink           cm_pass_sink_transposes
#define cm_pass_conv_sink           cm_pass_sink_transposes
#define cm_pass_conv_merge          cm_pass_merge_transposes
#define cm_pass_norm_merge          cm_pass_merge_transposes
#define cm_pass_conv_identity       cm_pass_identity
#define cm_pass_conv_dce            cm_pass_dce
#define cm_pass_heads_dce           cm_pass_dce
#define cm_pass_fuse_dce            cm_pass_dce
#define cm_pass_attention_dce       cm_pass_dce
#define cm_pass_qkv_dce             cm_pass_dce
#define cm_pass_batch_first_dce     cm_pass_dce
#define cm_pass_attention_unflatten cm_pass_unflatten_products
#define cm_pass_attention_views     cm_pass_merge_views
#define cm_pass_attention_identity  cm_pass_identity
#define cm_pass_clean_dce           cm_pass_dce
#define cm_pass_control_fold        cm_pass_fold_constants
#define cm_pass_control_identity    cm_pass_identity
#define cm_pass_precision_casts     cm_pass_merge_casts
#define cm_pass_precision_identity  cm_pass_identity
#define cm_pass_precision_dce       cm_pass_dce
#define cm_pass_slice_cse           cm_pass_cse
#define cm_pass_rehoist_slice       cm_pass_hoist_slice
#define cm_pass_slice_dce           cm_pass_dce
#define cm_pass_reidentity          cm_pass_identity

#define X(name, phase, repeat, tolerance, what)                                                    \
    cm_status cm_pass_##name(cm_rewriter *rw, cm_network *g);
PASSES(X)
#undef X

const cm_pass cm_passes[] = {
#define X(name, phase, repeat, tolerance, what)                                                    \
    {#name, cm_pass_##name, CM_PHASE_##phase, repeat, tolerance, what},
    PASSES(X)
#undef X
};
const int cm_n_passes = CM_COUNT(cm_passes);

const cm_pass *cm_pass_find(const char *name)
{
    for (int i = 0; i < cm_n_passes; i++)
        if (!strcmp(cm_passes[i].name, name))
            return &cm_passes[i];
    return NULL;
}

bool cm_rewrite(cm_rewriter *rw, const cm_node *n)
{
    if (rw->n_rewrites >= rw->limit)
        return false;
    rw->n_rewrites++;
    if (rw->options->on_rewrite)
        rw->options->on_rewrite(rw->options->user, rw->pass, n, rw->n_rewrites);
    return true;
}

void cm_near(cm_rewriter *rw, const cm_node *n, const char *fmt, ...)
{
    if (!rw->collect_misses)
        return;
    char text[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (const cm_near_miss *m = rw->misses; m; m = m->next)
        if (!strcmp(m->node, n->name) && !strcmp(m->why, text) && m->pass == rw->pass)
            return; /* said in an earlier round */
    cm_near_miss *m = cm_new(n->network->arena, cm_near_miss);
    const char *why = cm_arena_strdup(n->network->arena, text);
    if (!m || !why)
        return; /* a report only: not worth failing for */
    *m = (cm_near_miss){rw->pass, n->name, why, rw->misses};
    rw->misses = m;
}

/* The pass on g, then on what is nested in its nodes. */
static cm_status visit(cm_rewriter *rw, const cm_pass *p, cm_network *g)
{
    CM_TRY(p->run(rw, g));
    if (!rw->nested)
        return CM_OK;
    CM_FOR_NODES (n, g)
        for (int s = 0; s < n->n_subs; s++)
            CM_TRY(visit(rw, p, n->subs[s]));
    return CM_OK;
}

static cm_status run_pass(cm_rewriter *rw, const cm_pass *p, cm_network *g)
{
    enum { MOST_ROUNDS = 100 };
    rw->pass = p->name;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        int64_t before = rw->n_rewrites;
        cm_arena_mark mark = cm_arena_save(rw->cx->scratch);
        rw->n_visits += g->n_nodes;
        cm_status st = visit(rw, p, g);
        cm_arena_restore(rw->cx->scratch, mark);
        if (st == CM_OK && rw->n_rewrites > before)
            st = cm_network_verify(rw->cx, g);
        if (st != CM_OK)
            return cm_while(rw->cx, st, "pass %s", p->name);
        if (!p->repeat || rw->n_rewrites == before)
            break;
    }
    return CM_OK;
}

static bool has_nested(const cm_network *g)
{
    CM_FOR_NODES (n, g)
        if (n->n_subs)
            return true;
    return false;
}

static int count_nodes(const cm_rewriter *rw, const cm_network *g)
{
    int k = g->n_nodes;
    if (!rw->nested)
        return k;
    CM_FOR_NODES (n, g)
        for (int s = 0; s < n->n_subs; s++)
            k += count_nodes(rw, n->subs[s]);
    return k;
}

static const cm_near_miss *oldest_first(cm_near_miss *newest)
{
    cm_near_miss *out = NULL;
    while (newest) {
        cm_near_miss *next = newest->next;
        newest->next = out;
        out = newest;
        newest = next;
    }
    return out;
}

cm_status cm_optimise(cm_ctx *cx, cm_network *g, const cm_optimise_options *o, int64_t *rewrites,
                      const cm_near_miss **misses)
{
    cm_rewriter rw = {.cx = cx,
                      .limit = o->stop_after_rewrite,
                      .collect_misses = o->collect_misses,
                      .nested = has_nested(g),
                      .options = o};
    for (int i = 0; i < cm_n_passes; i++) {
        const cm_pass *p = &cm_passes[i];
        int64_t before = rw.n_rewrites, visits = rw.n_visits;
        uint64_t start = cm_now_ns();
        CM_TRY(cm_report(cx, "optimising", i, cm_n_passes));
        CM_TRY(run_pass(&rw, p, g));
        if (o->stats)
            o->stats[i] = (cm_pass_stats){rw.n_rewrites - before, cm_now_ns() - start,
                                          count_nodes(&rw, g), rw.n_visits - visits};
        if (o->after_pass && rw.n_rewrites > before)
            CM_TRY(o->after_pass(o->user, cx, g, p, rw.n_rewrites));
        if (o->stop_after && !strcmp(o->stop_after, p->name))
            break;
    }
    if (rewrites)
        *rewrites = rw.n_rewrites;
    if (misses)
        *misses = oldest_first(rw.misses);
    return CM_OK;
}

cm_status cm_pass_apply_with(cm_ctx *cx, cm_network *g, const cm_pass *pass,
                             const cm_optimise_options *o, int64_t *rewrites)
{
    cm_rewriter rw = {
        .cx = cx, .limit = o->stop_after_rewrite, .nested = has_nested(g), .options = o};
    CM_TRY(run_pass(&rw, pass, g));
    if (rewrites)
        *rewrites += rw.n_rewrites;
    return CM_OK;
}

cm_status cm_pass_apply(cm_ctx *cx, cm_network *g, const cm_pass *pass, int64_t *rewrites)
{
    static const cm_optimise_options defaults = CM_OPTIMISE_DEFAULT;
    return cm_pass_apply_with(cx, g, pass, &defaults, rewrites);
}
