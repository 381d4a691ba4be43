/* quant_lookup.c -- bytes looked up one by one.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/quant.h"

void cm_cpu_lookup__generic(const uint8_t *x, int64_t n, const uint8_t *table, uint8_t *y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = table[x[i]];
}
