/* resnet50.c -- builds ResNet-50 by calls, with random weights, and writes it as a plan.
 * SPDX-License-Identifier: Apache-2.0
 *
 *     resnet50 PLAN
 *
 * The network of He et al. (2015), the stride in the 3x3 convolution: 53 convolutions, each with a
 * batch normalisation, 25.6 million weights. They are drawn from a fixed seed, so it recognises
 * nothing, but costs what the trained one costs. The batch is a symbol: any size runs. */
#include <cameo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    cameo_network *network;
    cameo_error error;
    cameo_status status; /* of the first call that failed: the rest do nothing */
    uint64_t random;
    int64_t n_weights;
} builder;

/* About normal, mean 0, variance 1: the sum of twelve uniform numbers, less 6 (splitmix64). */
static float draw(builder *b)
{
    float sum = -6;
    for (int i = 0; i < 12; i++) {
        uint64_t z = b->random += 0x9E3779B97F4A7C15u;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        sum += (float)((z ^ (z >> 31)) >> 40) * (1.0f / (1 << 24));
    }
    return sum;
}

static float root(float x)
{
    float r = x < 1 ? 1 : x;
    for (int i = 0; i < 40; i++)
        r = 0.5f * (r + x / r);
    return r;
}

/* A weight NAME.PART, drawn with this deviation around `centre`. */
static void weight(builder *b, const char *name, const char *part, int rank, const int64_t *dims,
                   float centre, float deviation)
{
    char full[96];
    int64_t n = 1;
    cameo_tensor t = {CAMEO_F32, rank, {0}, NULL, 0};
    for (int i = 0; i < rank; i++)
        n *= t.dims[i] = dims[i];
    float *data = malloc((size_t)n * sizeof *data);
    if (!data && b->status == CAMEO_OK)
        b->status = CAMEO_ERR_MEMORY;
    if (b->status == CAMEO_OK) {
        for (int64_t i = 0; i < n; i++)
            data[i] = deviation > 0 ? centre + deviation * draw(b) : centre;
        t.data = data;
        t.bytes = (size_t)n * sizeof *data;
        snprintf(full, sizeof full, "%s.%s", name, part);
        b->status = cameo_network_add_constant(b->network, full, &t, &b->error);
        b->n_weights += n;
    }
    free(data);
}

static void node(builder *b, const char *op, const char *name, int n_in, const char *const *in,
                 int n_attrs, const cameo_attr *attrs)
{
    if (b->status == CAMEO_OK)
        b->status = cameo_network_add_node(b->network, op, name, n_in, in, 1, &name, n_attrs, attrs,
                                           &b->error);
}

static cameo_attr ints(const char *name, const int64_t *v, int64_t n)
{
    return (cameo_attr){.name = name, .kind = CAMEO_ATTR_INTS, .n = n, .ints = v};
}

/* NAME = Relu?(BatchNormalization(Conv(in))); `gain` is the scale of the normalisation. */
static void conv(builder *b, const char *name, const char *in, int64_t c_in, int64_t c_out,
                 int64_t size, int64_t stride, int relu, float gain)
{
    char c[96], w[96], norm[96], p[4][96];
    static const char *const parts[] = {"scale", "shift", "mean", "variance"};
    const int64_t pad = size / 2, pads[] = {pad, pad, pad, pad}, strides[] = {stride, stride};
    const int64_t kernel[] = {size, size}, dims[] = {c_out, c_in, size, size};
    const float values[] = {gain, 0, 0, 1};
    snprintf(c, sizeof c, "%s.conv", name);
    snprintf(w, sizeof w, "%s.weight", name);
    snprintf(norm, sizeof norm, relu ? "%s.norm" : "%s", name);
    weight(b, name, "weight", 4, dims, 0, root(2.0f / (float)(c_in * size * size)));
    const cameo_attr attrs[] = {ints("kernel_shape", kernel, 2), ints("pads", pads, 4),
                                ints("strides", strides, 2)};
    node(b, "Conv", c, 2, (const char *const[]){in, w}, 3, attrs);
    for (int i = 0; i < 4; i++) {
        weight(b, name, parts[i], 1, &c_out, values[i], 0);
        snprintf(p[i], sizeof p[i], "%s.%s", name, parts[i]);
    }
    node(b, "BatchNormalization", norm, 5, (const char *const[]){c, p[0], p[1], p[2], p[3]}, 0,
         NULL);
    if (relu)
        node(b, "Relu", name, 1, (const char *const[]){norm}, 0, NULL);
}

/* A bottleneck: 1x1 down, 3x3, 1x1 up, plus the input (through a 1x1 where the shape changes). */
static void block(builder *b, const char *name, const char *in, int64_t c_in, int64_t width,
                  int64_t stride)
{
    char x[5][80];
    static const char *const parts[] = {"a", "b", "c", "skip", "sum"};
    for (int i = 0; i < 5; i++)
        snprintf(x[i], sizeof x[i], "%s.%s", name, parts[i]);
    const char *skip = in;
    conv(b, x[0], in, c_in, width, 1, 1, 1, 1);
    conv(b, x[1], x[0], width, width, 3, stride, 1, 1);
    conv(b, x[2], x[1], width, 4 * width, 1, 1, 0, 0.25f);
    if (c_in != 4 * width || stride != 1) {
        conv(b, x[3], in, c_in, 4 * width, 1, stride, 0, 1);
        skip = x[3];
    }
    node(b, "Add", x[4], 2, (const char *const[]){x[2], skip}, 0, NULL);
    node(b, "Relu", name, 1, (const char *const[]){x[4]}, 0, NULL);
}

static void resnet50(builder *b)
{
    static const int blocks[] = {3, 4, 6, 3};
    static const int64_t image[] = {-1, 3, 224, 224}, three[] = {3, 3}, two[] = {2, 2},
                         one[] = {1, 1, 1, 1}, fc[] = {1000, 2048}, classes[] = {1000};
    const cameo_attr pool[] = {ints("kernel_shape", three, 2), ints("pads", one, 4),
                               ints("strides", two, 2)};
    const cameo_attr transposed = {.name = "transB", .kind = CAMEO_ATTR_INT, .i = 1};
    b->status =
        cameo_network_add_input(b->network, "image", CAMEO_F32, 4, image,
                                (const char *const[]){"batch", NULL, NULL, NULL}, &b->error);
    conv(b, "stem", "image", 3, 64, 7, 2, 1, 1);
    node(b, "MaxPool", "stem.pool", 1, (const char *const[]){"stem"}, 3, pool);
    char last[64] = "stem.pool", name[64];
    int64_t channels = 64;
    for (int s = 0; s < 4; s++)
        for (int i = 0; i < blocks[s]; i++) {
            snprintf(name, sizeof name, "stage%d.%d", s + 1, i + 1);
            block(b, name, last, channels, (int64_t)64 << s, s > 0 && i == 0 ? 2 : 1);
            channels = (int64_t)256 << s;
            memcpy(last, name, sizeof last);
        }
    node(b, "GlobalAveragePool", "pool", 1, (const char *const[]){last}, 0, NULL);
    node(b, "Flatten", "features", 1, (const char *const[]){"pool"}, 0, NULL);
    weight(b, "fc", "weight", 2, fc, 0, root(1.0f / 2048));
    weight(b, "fc", "bias", 1, classes, 0, 0);
    node(b, "Gemm", "logits", 3, (const char *const[]){"features", "fc.weight", "fc.bias"}, 1,
         &transposed);
    node(b, "Softmax", "probabilities", 1, (const char *const[]){"logits"}, 0, NULL);
    if (b->status == CAMEO_OK)
        b->status = cameo_network_mark_output(b->network, "probabilities", &b->error);
}

int main(int argc, char **argv)
{
    builder b = {.random = 50};
    cameo_info in, out;
    if (argc != 2) {
        fprintf(stderr, "usage: resnet50 PLAN\n");
        return 2;
    }
    if (cameo_network_create("resnet50", NULL, &b.network, &b.error) == CAMEO_OK) {
        resnet50(&b);
        if (b.status == CAMEO_OK)
            b.status = cameo_network_input(b.network, 0, &in, &b.error);
        if (b.status == CAMEO_OK)
            b.status = cameo_network_output(b.network, 0, &out, &b.error);
        if (b.status == CAMEO_OK)
            printf("  %s: %s to %s: %s, %.1f million weights\n", in.name, in.type_text, out.name,
                   out.type_text, (double)b.n_weights * 1e-6);
        if (b.status == CAMEO_OK)
            b.status = cameo_build_file(b.network, NULL, argv[1], &b.error);
    } else {
        b.status = b.error.status;
    }
    cameo_network_destroy(b.network);
    if (b.status != CAMEO_OK) {
        fprintf(stderr, "resnet50: %s\n", b.error.message);
        return 1;
    }
    printf("  wrote %s\n", argv[1]);
    return 0;
}
