/* norm_group.h -- group normalisation: moments of groups whose channels are innermost, and what follows.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/rows.h"
#include "cpu/simd/math.h"
#include "cpu/simd/vec.h"

/* Per channel the sum over positions of x - shift, and of its square where `square` is not NULL. */
VINLINE void channel_sums(const float *x, int64_t n, int64_t channels, const float *shift,
                          float *sum, float *square)
{
    int64_t c = 0;
    for (; c + 2 * VW <= channels; c += 2 * VW) {
        vf s[2], q[2], h[2];
        for (int k = 0; k < 2; k++) {
            s[k] = q[k] = vf_zero();
            h[k] = shift ? vf_load(shift + c + k * VW) : vf_zero();
        }
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < 2; k++) {
                vf d = vf_sub(vf_load(x + i * channels + c + k * VW), h[k]);
                s[k] = vf_add(s[k], d);
                if (square)
                    q[k] = vf_fma(d, d, q[k]);
            }
        for (int k = 0; k < 2; k++) {
            vf_store(sum + c + k * VW, s[k]);
            if (square)
                vf_store(square + c + k * VW, q[k]);
        }
    }
    for (; c < channels; c += VW) {
        int m = (int)(channels - c < VW ? channels - c : VW);
        vf s = vf_zero(), q = vf_zero(), h = shift ? vf_load_n(shift + c, m) : vf_zero();
        for (int64_t i = 0; i < n; i++) {
            vf d = vf_sub(vf_load_n(x + i * channels + c, m), h);
            s = vf_add(s, d);
            q = vf_fma(d, d, q);
        }
        vf_store_n(sum + c, s, m);
        if (square)
            vf_store_n(square + c, q, m);
    }
}

static bool group_moments(const float *x, int64_t n, int64_t channels, int64_t groups,
                          float *scratch, double *out)
{
    int64_t each = channels / groups;
    double count = (double)(each * n);
    float *sums = scratch, *means = sums + channels, *squares = means + channels;
    bool good = true;
    channel_sums(x, n, channels, NULL, sums, NULL);
    for (int64_t g = 0; g < groups; g++) {
        double sum = 0;
        for (int64_t c = g * each; c < (g + 1) * each; c++)
            sum += sums[c];
        good = good && sum < 1e37 && sum > -1e37;
        for (int64_t c = g * each; c < (g + 1) * each; c++)
            means[c] = (float)(sum / count);
    }
    channel_sums(x, n, channels, means, sums, squares);
    for (int64_t g = 0; g < groups; g++) {
        double off = 0, square = 0;
        for (int64_t c = g * each; c < (g + 1) * each; c++)
            off += sums[c], square += squares[c];
        good = good && square < 1e37;
        square -= off * off / count;
        out[2 * g] = means[g * each] + off / count;
        out[2 * g + 1] = square < 0 ? 0 : square;
    }
    return good;
}

static void group_affine(const cm_group_norm *a, const float *x, float *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++, x += a->channels, y += a->channels) {
        int64_t c = 0;
        for (; c + VW <= a->channels; c += VW) {
            vf v = vf_sub(vf_load(x + c), vf_load(a->mean + c));
            v = vf_fma(v, vf_load(a->scale + c), vf_load(a->bias + c));
            vf_store(y + c, a->silu ? vf_silu(v) : v);
        }
        if (c < a->channels) {
            int m = (int)(a->channels - c);
            vf v = vf_sub(vf_load_n(x + c, m), vf_load_n(a->mean + c, m));
            v = vf_fma(v, vf_load_n(a->scale + c, m), vf_load_n(a->bias + c, m));
            vf_store_n(y + c, a->silu ? vf_silu(v) : v, m);
        }
    }
}

static void affine(const float *x, float *y, int64_t n, float mean, float scale, float bias,
                   bool silu)
{
    vf m = vf_set(mean), s = vf_set(scale), b = vf_set(bias);
    int64_t i = 0;
    for (; i + VW <= n; i += VW) {
        vf v = vf_fma(vf_sub(vf_load(x + i), m), s, b);
        vf_store(y + i, silu ? vf_silu(v) : v);
    }
    if (i < n) {
        vf v = vf_fma(vf_sub(vf_load_n(x + i, (int)(n - i)), m), s, b);
        vf_store_n(y + i, silu ? vf_silu(v) : v, (int)(n - i));
    }
}
