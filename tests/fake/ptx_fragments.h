/* ptx_fragments.h -- matrices that a warp holds in registers, and products of them: mma, wgmma.
 * SPDX-License-Identifier: Apache-2.0 */
static void load_matrices(thread *t, uint32_t *f, int n, int across, uint32_t at)
{
    meeting *m = meet_lanes(t, UINT32_MAX, &at, 1);
    for (int i = 0; i < n; i++) {
        uint16_t pair[2];
        for (int k = 0; k < 2; k++) {
            int row = across ? (int)t->lane % 4 * 2 + k : (int)t->lane / 4,
                col = across ? (int)t->lane / 4 : (int)t->lane % 4 * 2 + k;
            memcpy(&pair[k], aligned(shared_at(t, m->all[i * 8 + row][0], 16), 16) + col * 2, 2);
        }
        f[i] = pair[0] | (uint32_t)pair[1] << 16;
    }
    warp_meet(t, UINT32_MAX); /* nobody writes before all have read */
}
static void store_matrices(thread *t, const uint32_t *f, int n, uint32_t at)
{
    meeting *m = meet_lanes(t, UINT32_MAX, &at, 1);
    for (int i = 0; i < n; i++)
        memcpy(aligned(shared_at(t, m->all[i * 8 + (int)t->lane / 4][0], 16), 16) + t->lane % 4 * 4,
               &f[i], 4);
}
static void gather_fragments(thread *t, uint32_t (*all)[4], const uint32_t *own)
{
    meeting *m = meet_lanes(t, UINT32_MAX, own, 4);
    memcpy(all, m->all, sizeof m->all);
}

static float number(uint32_t bits, int kind, int half)
{
    if (kind == 2)
        return as_tf32(bits);
    uint16_t h = (uint16_t)(half ? bits >> 16 : bits);
    return kind ? as_bf16(h) : as_half(h);
}
static int small(uint32_t bits, int kind, int byte)
{
    return kind == 3 ? (int8_t)(bits >> (8 * byte)) : (uint8_t)(bits >> (8 * byte));
}

/* c of 16 x 8: lane l has rows l / 4 and l / 4 + 8, columns l % 4 * 2 and the next. A's registers: (row, row + 8) of the first half of k,
 * then of the second; B's: halves of k. Each register has `each` neighbours along k. */
static void fragment_sum(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b, int ka,
                         int kb, int halves)
{
    uint32_t fa[32][4], fb[32][4], pad[4] = {b[0], b[1], 0, 0};
    int each = ka == 2 ? 1 : ka < 2 ? 2 : 4;
    gather_fragments(t, fa, a);
    gather_fragments(t, fb, pad);
    for (int i = 0; i < 4; i++) {
        int row = (int)t->lane / 4, col = (int)t->lane % 4 * 2 + i % 2;
        double sum = ka < 3 ? as_f32(c[i]) : 0;
        uint32_t integer = c[i];
        for (int h = 0; h < halves; h++)
            for (int q = 0; q < 4; q++)
                for (int e = 0; e < each; e++) {
                    uint32_t x = fa[row * 4 + q][h * 2 + i / 2], y = fb[col * 4 + q][h];
                    if (ka < 3)
                        sum += (double)number(x, ka, e) * number(y, kb, e);
                    else
                        integer += (uint32_t)(small(x, ka, e) * small(y, kb, e));
                }
        c[i] = ka < 3 ? of_f32((float)sum) : integer;
    }
}
static void fragment_product_m16n8k16(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                      int ka, int kb)
{
    fragment_sum(t, c, a, b, ka, kb, ka < 3 ? 2 : 1);
}
static void fragment_product_m16n8k8(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                     int ka, int kb)
{
    fragment_sum(t, c, a, b, ka, kb, ka == 2 ? 2 : 1);
}
static void fragment_product_m16n8k32(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                      int ka, int kb)
{
    fragment_sum(t, c, a, b, ka, kb, 2);
}
static void fragment_product_m8n8k16(thread *t, uint32_t *c, const uint32_t *a, const uint32_t *b,
                                     int ka, int kb)
{
    uint32_t wide[4] = {c[0], c[1], 0, 0}, x[4] = {a[0], 0, 0, 0};
    fragment_sum(t, wide, x, b, ka, kb, 1);
    c[0] = wide[0];
    c[1] = wide[1];
}

/* Row (column) i, k: in bytes, of a matrix as a descriptor tells it. */
static uint32_t described_at(uint64_t d, int i, int k, int size, int across)
{
    uint32_t start = (uint32_t)(d & 0x3fff) << 4, leading = (uint32_t)(d >> 16 & 0x3fff) << 4,
             stride = (uint32_t)(d >> 32 & 0x3fff) << 4;
    static const int swizzles[4] = {0, 128, 64, 32};
    int wide = swizzles[d >> 62];
    if (!wide)
        broken(running, "a product of operands that are not swizzled");
    uint32_t at = across ? start + (uint32_t)(i / (wide / size)) * leading +
                               (uint32_t)(k / 8) * stride +
                               (uint32_t)(k % 8 * wide + i % (wide / size) * size)
                         : start + (uint32_t)(i / 8) * stride + (uint32_t)(i % 8 * wide + k * size);
    return swizzled(at, wide);
}
static float described(const thread *t, uint64_t d, int i, int k, int kind, int across)
{
    int size = kind == 2 ? 4 : 2;
    uint32_t bits = 0;
    memcpy(&bits, shared_at(t, own_address(t, described_at(d, i, k, size, across)), (uint32_t)size),
           (size_t)size);
    return number(bits, kind, 0);
}
static void group_product(thread *t, uint32_t *d, uint64_t a, uint32_t (*own)[4], uint64_t b,
                          int add, int n, int k, int kind, int a_across, int b_across)
{
    enum { MOST_K = 16 };
    float x[2][MOST_K];
    int warp = (int)t->warp % 4;
    warp_meet(t, UINT32_MAX);
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < k; i++) {
            int row = (int)t->lane / 4;
            int each = kind == 2 ? 1 : 2, q = i / each % 4, half = i / (4 * each);
            x[h][i] = own ? number(own[row * 4 + q][half * 2 + h], kind, i % each)
                          : described(t, a, warp * 16 + row + h * 8, i, kind, a_across);
        }
    for (int j = 0; j < n / 8; j++)
        for (int c = 0; c < 2; c++) {
            float y[MOST_K];
            for (int i = 0; i < k; i++)
                y[i] = described(t, b, j * 8 + (int)t->lane % 4 * 2 + c, i, kind, b_across);
            for (int h = 0; h < 2; h++) {
                double sum = add ? as_f32(d[j * 4 + h * 2 + c]) : 0;
                for (int i = 0; i < k; i++)
                    sum += (double)x[h][i] * y[i];
                d[j * 4 + h * 2 + c] = of_f32((float)sum);
            }
        }
}
