/* shapes.h -- what each kind of problem is made of: its sizes with the operator's spelling gone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * ops/problems/ fills these in from an operator, its attributes and actual sizes; tactics read them.
 * Strides and offsets count elements. Inputs are named by their index among the problem's inputs. */
#ifndef CM_PLAN_SHAPES_H
#define CM_PLAN_SHAPES_H

#include "plan/program.h"
#include "plan/tensor.h"

enum { CM_BATCH_AXES = 6 };

/* One matrix of a product, and how it moves along the batch axes (stride 0: the same for all). */
typedef struct cm_matrix {
    int64_t row, col; /* strides */
    int64_t batch[CM_BATCH_AXES];
} cm_matrix;

/* c[b][i][j] = alpha * sum over l of a[b][i][l] * b[b][l][j]. Inputs 0 and 1; input 2 where `bias`
 * is not -1 is added as it broadcasts to the output, times beta. Batch axes that can be are merged
 * into each other and into the rows. */
typedef struct cm_matmul {
    int64_t m, n, k;
    int n_batch;
    int64_t batch[CM_BATCH_AXES];
    cm_matrix a, b, c;
    float alpha, beta;
    int bias; /* input, -1: none */
} cm_matmul;

/* The transposed product, c^T = b^T a^T, of the same numbers; `bias` is left as it is. */
void cm_matmul_transpose(cm_matmul *s);

/* A convolution over 1 to 3 spatial axes, written as 3: the missing ones come first, of size 1. Inputs:
 * 0 x [n, c_in, in...], 1 weights [c_out, c_in / groups, kernel...] (transposed: [c_in, c_out / groups,
 * kernel...]), 2 a bias per output channel where `bias`. */
typedef struct cm_conv {
    int axes; /* how many of the three are real */
    int64_t n, groups, c_in, c_out;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3]; /* pad: at the beginning */
    bool transposed, bias;
} cm_conv;

/* Where a head's vectors lie: element d of position s of head h of batch b is at
 * offset + b*batch + h*head + s*seq + d*dim. */
typedef struct cm_heads {
    int64_t offset, batch, head, seq, dim;
} cm_heads;

/* y = softmax(masked(softcap(scale q k^T) + bias)) v; ops/attention/fused_attention.c has the exact
 * meaning. Inputs: q, k, v, bias, mask, past_key, past_value; outputs y, present_key, present_value. */
typedef struct cm_attention {
    int64_t batch, heads, kv_heads, q_len, kv_len, past_len, head_size, v_head_size;
    cm_heads q, k, v, y;
    int64_t bias[4], mask[4];       /* strides over batch, head, query, key; 0: broadcast */
    int64_t bias_batch, mask_batch; /* how many there are: they repeat beyond */
    float scale, softcap;           /* softcap 0: none */
    bool causal, has_mask_value, bias_last;
    float mask_value;
} cm_attention;

typedef enum {
    CM_ROWS_SOFTMAX,
    CM_ROWS_LOG_SOFTMAX,
    CM_ROWS_LAYER_NORM, /* (x - mean) / sqrt(variance + epsilon) * scale + bias */
    CM_ROWS_RMS_NORM,
    CM_ROWS_GROUP_NORM, /* rows are groups of channels; scale and bias run over channels */
    CM_ROWS_L2_NORM,    /* x / max(norm, epsilon) */
    CM_ROWS_L1_NORM,
} cm_rows_kind;

/* Rows of `cols` elements, `inner` apart: row r of `rows`, r = outer * inner + i, begins at
 * outer * cols * inner + i where input 0 is row-major; inner is 1 where the axis is the last. Else strides
 * tell, a row being made up by `n_axes` axes from `axis` on. GROUP_NORM: `axis` is that of the channels,
 * a row is channels / groups of them with all that belongs to each; scale and bias have `channels` entries. */
typedef struct cm_rows {
    cm_rows_kind kind;
    int64_t rows, cols, inner;
    int axis, n_axes;
    float epsilon;
    int scale, bias;  /* inputs, -1: none; `cols` entries each, or one for all */
    int64_t channels; /* GROUP_NORM */
    int64_t groups;
    int skip, skip_bias;     /* inputs added to input 0 before, -1: none; skip_bias has `cols` */
    int64_t skip_rows;       /* rows of the skip input: it repeats beyond */
    int sum;                 /* output that gets the sum of both, -1: none */
    int mean, inv_deviation; /* outputs, -1: none */
    bool silu;               /* x * sigmoid(x) follows, before the epilogue */
    /* LAYER_NORM of embeddings, `embed`: input 0 is not the data. Row r is the sum of rows of tables (inputs;
     * -1: none): word[ids[r]] + place[r % place_rows, or place_ids[r % place_rows]] + segment[segment_ids[r]].
     * Ids below 0 count from a table's end. */
    bool embed;
    int word, place, segment, ids, place_ids, segment_ids;
    int64_t place_rows;
    int mask, mask_index; /* input and output: how many entries of each batch's mask are 1 */
    int64_t batch;
} cm_rows;

/* GROUP_NORM: does t lie in images, each of planes of `space` elements, one for a channel; or of pixels, their
 * channels adjacent? Both, where those are the same. Images may be any distance apart. */
bool cm_is_in_planes(const cm_tensor *t, int channel_axis, int64_t space);
bool cm_is_in_pixels(const cm_tensor *t, int channel_axis);

/* A program over the broadcast of the inputs: cameo.Pointwise and every elementwise operator. The
 * problem's `program` has one output per output of the problem. */
typedef struct cm_pointwise_shape {
    int rank; /* of the loop nest, axes merged where all operands allow; at least 1 */
    int64_t dims[CM_MAX_RANK];
    const int64_t (*in)[CM_MAX_RANK];  /* per input: strides, 0 along broadcast axes */
    const int64_t (*out)[CM_MAX_RANK]; /* per output */
} cm_pointwise_shape;

typedef enum {
    CM_REDUCE_SUM,
    CM_REDUCE_MEAN,
    CM_REDUCE_MAX,
    CM_REDUCE_MIN,
    CM_REDUCE_PROD,
    CM_REDUCE_SUM_SQUARE,
    CM_REDUCE_L1,
    CM_REDUCE_L2,
    CM_REDUCE_LOG_SUM,
    CM_REDUCE_LOG_SUM_EXP,
    CM_REDUCE_ARG_MAX,
    CM_REDUCE_ARG_MIN,
} cm_reduce_kind;

/* The program's result (input 0 itself without one), reduced along the axes that are set. */
typedef struct cm_reduce {
    cm_reduce_kind kind;
    bool axes[CM_MAX_RANK]; /* of the loop nest's */
    cm_pointwise_shape loop;
    const int64_t (
        *operands)[CM_MAX_RANK]; /* strides of the epilogue's operands; 0 where reduced */
    bool select_last_index;
} cm_reduce;

typedef enum { CM_POOL_MAX, CM_POOL_AVERAGE, CM_POOL_LP } cm_pool_kind;

/* Sizes as cm_conv's. Global pooling is a window of the whole. */
typedef struct cm_pool {
    cm_pool_kind kind;
    int axes;
    int64_t n, c;
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], pad[3];
    bool count_pads;     /* AVERAGE: padding counts as zeros */
    bool count_overhang; /* and so does what lies beyond it */
    int64_t pad_end[3];
    int indices;       /* output of a MAX pool that gets indices, -1: none */
    bool column_major; /* the indices count so in each image's channel */
    int p;             /* LP */
} cm_pool;

/* Per axis, `taps` sources with weights for each output position o: from[t * out + o]. */
typedef struct cm_resize {
    int rank;
    int64_t in[CM_MAX_RANK], out[CM_MAX_RANK]; /* sizes */
    struct {
        int taps;            /* 0: the axis keeps its size */
        const int32_t *from; /* of tap 0 -1: outside, the element is `extrapolation` */
        const float *weight; /* a source of weight 0 is not read */
    } axis[CM_MAX_RANK];
    bool nearest; /* one tap each, of weight 1 */
    float extrapolation;
} cm_resize;

/* out[i...] = in[i...] for pieces: a strided copy each. */
typedef struct cm_move_piece {
    int input, output; /* input -1: filled with `fill` */
    int rank;
    int64_t dims[CM_MAX_RANK];
    int64_t from[CM_MAX_RANK], to[CM_MAX_RANK]; /* strides; negative ones walk backwards */
    int64_t from_offset, to_offset;
} cm_move_piece;
/* An axis of the output, cut where it walks the input's by another step: -1, 0 or 1. */
typedef struct cm_move_cut {
    int n;
    const struct cm_move_segment {
        int64_t at, n, from, step; /* from -1: the constant */
    } * segments;
} cm_move_cut;
typedef struct cm_move {
    int n_pieces;
    const cm_move_piece *pieces;
    unsigned char fill[16];  /* one element */
    const cm_move_cut *cuts; /* of Pad and Slice: the same axis by axis; NULL: there are none */
    int constant;            /* where there are: the input that holds it, -1: `fill` */
} cm_move;

typedef enum {
    CM_GATHER_ROWS,     /* out[o, j, i] = data[o, index[j], i] */
    CM_GATHER_ELEMENTS, /* out[i, j, k] = data[i, index[i, j, k], k] when the axis is the second */
    CM_GATHER_TUPLES,   /* the last axis of the indices names a place along `depth` axes */
} cm_gather_kind;

/* Elements picked by indices; a row is `inner` elements. */
typedef struct cm_gather {
    cm_gather_kind kind;
    int64_t outer, axis, inner, n_indices; /* ROWS; axis: its size */
    int data, indices;                     /* inputs */
    int axis_index;                        /* ROWS, ELEMENTS: which axis of the data it is */
    int batch_axes, depth;                 /* TUPLES: leading axes in common; numbers in a tuple */
} cm_gather;

typedef enum {
    CM_SCATTER_SET,
    CM_SCATTER_ADD,
    CM_SCATTER_MUL,
    CM_SCATTER_MAX,
    CM_SCATTER_MIN
} cm_scatter_how;

/* Output 0 is input 0 with updates (input 2), one after the other, at `slots` places of `inner` elements each that
 * indices (input 1) name: tuples of `depth` numbers walk the first axes; or, `tuples` false, each index one
 * axis of an output that is walked as the indices are. */
typedef struct cm_scatter {
    cm_scatter_how how;
    bool tuples;
    int axis, depth; /* ELEMENTS: which axis; depth is 1 */
    int64_t n, slots, inner;
} cm_scatter;

typedef enum {
    CM_PLACED_ONE_HOT, /* inputs: index, depth, (off, on): y[o, c, i] = index[o, i] == c ? on : off */
    CM_PLACED_TRIANGLE, /* of matrices [rows, n]; the rest is zero */
    CM_PLACED_REVERSED, /* inputs: x, lengths: the first `length` along the axis of each batch */
    CM_PLACED_CACHE, /* inputs: past, update, begin (may be absent): update in a window of the axis */
    CM_PLACED_FILL,  /* `value` everywhere */
    CM_PLACED_EYE,   /* ... on the diagonal of a matrix [outer, n], elsewhere 0 */
    CM_PLACED_RANGE, /* start + i * step; of integers first + i * by, which wraps */
} cm_placed_kind;

/* Along the middle one of three axes of output 0. */
typedef struct cm_placed {
    cm_placed_kind kind;
    int64_t outer, n, inner;
    int64_t rows, diagonal; /* TRIANGLE: column of the diagonal in row 0 */
    bool upper;
    bool
        batch_inside; /* REVERSED: the batch is the first of the inner axes, else of the outer ones */
    int64_t
        per_batch; /* REVERSED, batch_inside: elements of a batch in `inner`; CACHE: outer of a batch */
    int64_t update; /* CACHE: length of the window */
    bool circular;
    uint64_t value; /* FILL, EYE: the bits of an element of up to 8 bytes */
    double start, step;
    int64_t first, by;
} cm_placed;

typedef enum { CM_SAMPLE_GRID, CM_SAMPLE_REGIONS } cm_sample_kind;
typedef enum { CM_SAMPLE_ZEROS, CM_SAMPLE_BORDER, CM_SAMPLE_REFLECTION } cm_sample_padding;

/* Images (input 0) read at the places of a grid (input 1), [images, out..., axes]: the innermost axis comes first,
 * -1 to 1 is the whole. ops/vision/grid.c has the exact meaning. REGIONS: of each region (input 1), [regions, 4], of the image
 * that input 2 names, cells [out[0], out[1]], each the mean or the largest of samples; ops/vision/roi.c has the exact meaning. */
typedef struct cm_sample {
    cm_sample_kind kind;
    int taps; /* GRID: along each axis: 1 nearest, 2 linear, 4 cubic */
    cm_sample_padding padding;
    bool align_corners;
    int axes; /* at most 3 */
    int64_t images, channels, in[3], in_volume, out_volume;
    int64_t regions, out[2], ratio; /* REGIONS; ratio 0: as many samples as a cell has pixels */
    bool largest, half_pixel;
    double scale;
} cm_sample;

/* What becomes of exact sums of products of small integers. */
typedef enum {
    CM_QSUMS,  /* they are the result */
    CM_QREAL,  /* times scales, plus a bias: real numbers */
    CM_QBYTES, /* times scales, rounded, plus a zero point: bytes */
} cm_qmode;

/* Sums over l of (a[i][l] - zero_a) * (b[l][j] - zero_b[j]), each matrix of a batch. Parameters are
 * inputs, -1: none; scale and zero point of b may be one for each column. */
typedef struct cm_qmatmul {
    cm_qmode mode;
    int64_t batch, m, n, k;
    int64_t a_batch, b_batch; /* elements between matrices of the batch, 0: the same for all */
    bool trans_b;             /* b is [n, k] */
    bool dynamic; /* a is real: quantised to u8 first, scale and zero point from itself */
    float alpha;  /* times scale_a */
    int a, b;     /* inputs */
    int a_scale, a_zero, b_scale, b_zero, y_scale, y_zero;
    int bias; /* REAL: real, one for each column */
    int sums; /* i32, added to the sums; one, or one for each column */
} cm_qmatmul;

/* The same over patches; the input's zero point pads. */
typedef struct cm_qconv {
    cm_conv conv; /* bias: there is input `sums` */
    cm_qmode mode;
    int x, w; /* inputs; weights as cm_conv says */
    int x_scale, x_zero, w_scale, w_zero, y_scale, y_zero, sums;
    bool x_last, y_last; /* channels are innermost; else row-major */
    bool strided;        /* neither, for one of them */
} cm_qconv;

typedef enum {
    CM_QUANTISE_TO,      /* round(x / scale) + zero */
    CM_QUANTISE_FROM,    /* (q - zero) * scale */
    CM_QUANTISE_DYNAMIC, /* TO u8 with a scale and a zero point that cover x: outputs 1 and 2 */
    CM_QUANTISE_TABLE,   /* a byte from a byte */
    CM_QUANTISE_ADD,     /* com.microsoft.QLinearAdd, its inputs */
    CM_QUANTISE_MUL,
    CM_QUANTISE_AVERAGE,        /* means of windows: real numbers from bytes, their mean, a byte */
    CM_QUANTISE_GLOBAL_AVERAGE, /* exact sums, then one factor */
    CM_QUANTISE_CONCAT,         /* pieces, each through a table */
    CM_QUANTISE_SOFTMAX,        /* of rows: real numbers from bytes, their softmax, bytes */
} cm_quantise_kind;

/* Between real numbers and bytes, and on bytes. Parameters run along an axis: element (o, a, i) has
 * parameter a; extent 1: one for all. With a block they are a tensor: element (o, a, i) has parameter (o, a / block, i).
 * SOFTMAX: `outer` rows of `extent` elements. */
typedef struct cm_quantise {
    cm_quantise_kind kind;
    int64_t outer, extent, inner, block;
    int scale, zero;      /* inputs, zero -1: none */
    const uint8_t *table; /* TABLE: 256; CONCAT: so many for each piece */
    cm_pool pool;         /* AVERAGE, GLOBAL_AVERAGE */
    bool channels_last;   /* of the pool's input and output */
    int y_scale, y_zero;  /* AVERAGE, GLOBAL_AVERAGE, SOFTMAX: inputs */
    bool adjacent;        /* SOFTMAX: a row's elements are, and rows, in both operands alike */
    cm_move move;         /* CONCAT */
    int rank;             /* ADD, MUL: of the output's loops */
    int64_t dims[CM_MAX_RANK];
    int64_t a[CM_MAX_RANK], b[CM_MAX_RANK], y[CM_MAX_RANK]; /* strides */
} cm_quantise;

typedef enum { CM_SORT_TOP_K, CM_SORT_CUM_SUM } cm_sort_kind;

/* Along the middle one of three axes of input 0. TOP_K: outputs 0 values, 1 indices. */
typedef struct cm_sort {
    cm_sort_kind kind;
    int64_t outer, n, inner;
    int64_t k; /* TOP_K */
    bool largest;
    bool exclusive, reverse; /* CUM_SUM */
    bool product;            /* CUM_SUM: of what came before, not its sum */
} cm_sort;

/* The places in input 0 of what is not 0, a column for each (NonZero), or the slices along its middle axis that
 * input 1 names by truths (Compress), in order. */
typedef struct cm_pick {
    int64_t n;   /* elements that are asked: those of input 0, of input 1 */
    bool slices; /* Compress */
    int64_t outer, length, inner;
} cm_pick;

/* Of the boxes of each batch, for each class the best that do not overlap better ones. Inputs are the operator's. */
typedef struct cm_nms {
    int64_t rows, classes; /* rows: classes of all batches */
    int64_t boxes;         /* of a batch */
    int64_t most;          /* that may be kept of a row, as far as it is known */
    bool center;           /* a box is its centre, width and height, not two corners */
} cm_nms;

/* Rows of input 0 times weights [n, k] of a few bits each (input 1), which blocks along k have a scale (2) and maybe a zero point (3)
 * for: (code - zero) * scale. Input 4: the block of each k, else they follow each other. Input 5: added to each row. */
typedef struct cm_nbits {
    int64_t m, n, k, block, blocks; /* elements of a block, blocks of a row */
    int bits;
    bool packed_zeros; /* codes like the weights, each row from a byte on; else numbers */
} cm_nbits;

/* LinearAttention: each head's state [k_size, v_size] from token to token. Inputs are the operator's. */
typedef struct cm_linear_attention {
    int64_t batch, len, q_heads, kv_heads, k_size, v_size;
    int64_t window; /* states that are kept, the last ones; 0: the last, without an axis for it */
    bool gated, delta;             /* inputs 4 and 5 are there */
    int64_t decay_cols, beta_cols; /* their last axis */
    float scale;
} cm_linear_attention;

/* com.microsoft.GroupQueryAttention: inputs are the operator's, lengths of sequences among them. */
typedef struct cm_gqa {
    int64_t batch, len, heads, kv_heads, size; /* new tokens; heads of `size` */
    int64_t past, rows;                        /* rows of the past, of the present cache */
    bool packed; /* keys and values lie behind the queries of a token */
    bool rotary, interleaved;
    int64_t rotated; /* columns of a head */
    bool causal;
    int64_t left; /* keys before a query that it sees, -1: all */
    bool smooth;  /* a score of 0 takes part */
    float scale, softcap, epsilon;
} cm_gqa;

typedef enum { CM_RECURRENT_RNN, CM_RECURRENT_GRU, CM_RECURRENT_LSTM } cm_recurrent_kind;

typedef enum {
    CM_GATE_SIGMOID,
    CM_GATE_TANH,
    CM_GATE_RELU,
    CM_GATE_LEAKY_RELU,   /* alpha */
    CM_GATE_HARD_SIGMOID, /* alpha, beta */
    CM_GATE_SOFTSIGN
} cm_gate_function;

typedef struct cm_recurrent {
    cm_recurrent_kind kind;
    int64_t steps, batch, input, hidden;
    int directions;   /* 1 or 2 */
    bool reverse;     /* the only direction runs backwards */
    bool batch_first; /* layout 1 */
    bool linear_before_reset, input_forget;
    float clip;             /* 0: none */
    bool plain_activations; /* the operator's defaults, in every direction */
    struct {
        cm_gate_function function;
        float alpha, beta;
    } gate[3];      /* RNN: the one; GRU: gates, state; LSTM: gates, cell, state */
    bool peepholes; /* LSTM: input 7 */
} cm_recurrent;

/* cameo.Rotary: columns of the last axis of input 0 in pairs, (j, j + columns / 2) or, interleaved, (2j, 2j + 1),
 * rotated by angles whose cosines and sines are inputs 1 and 2. These broadcast to the output: strides. */
typedef struct cm_rotary_shape {
    bool interleaved;
    int64_t rows, columns;
    int64_t cos[CM_MAX_RANK], sin[CM_MAX_RANK];
} cm_rotary_shape;

/* A plugin's operator: what its tactics are shown (api/rt_plugin.h). */
typedef struct cm_custom {
    const void *seen;
} cm_custom;

#endif
