/* refold.c -- compute early what the moves have made of constants, and weights that stayed quantised.
 *
 *     y = MatMul(x, DequantizeLinear(@w, @s))
 *  becomes
 *     y = MatMul(x, @v)
 *
 * As fold_constants, but where no product on integers was found (fuse_qdq comes before), quantised weights are numbers
 * like others.
 *
 * needs: types, tracked elements    keeps: types, uses
 * SPDX-License-Identifier: Apache-2.0
 */
#include "passes/folding.h"

CM_PASS(refold)
{
    return cm_fold_all(rw, g, false);
}
