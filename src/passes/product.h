/* product.h -- one form for matrix products: MatMul, or FusedMatMul where operands are read transposed or the
 * result has a factor.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_PASSES_PRODUCT_H
#define CM_PASSES_PRODUCT_H

#include "passes/match.h"

/* Elements: what is larger is not kept in two forms to save little. */
enum { CM_LARGE_WEIGHTS = 1 << 18 };
/* A constant so large that others read too: it is not kept in another form beside itself. */
bool cm_is_shared_weight(const cm_value *v);

typedef struct cm_product {
    cm_value *a, *b;
    bool trans_a, trans_b, batch_a, batch_b;
    double alpha;
} cm_product;

/* Is n a MatMul, FusedMatMul or TransposeMatMul, without an epilogue? */
bool cm_product_of(const cm_node *n, cm_product *out);
/* ... of matrices of floats whose batches are as they stand? */
bool cm_is_plain_product(const cm_node *n, cm_product *out);
/* Does every reader of v, of which there are not too many, take it as an operand of such a product? Then absorb_transpose
 * drops a Transpose that made it. */
bool cm_only_products_read(const cm_value *v);
/* Before `before`, the product in its simplest form: flags and factors of constants are applied to them.
 * The provenance is that of `like`. */
cm_status cm_make_product(cm_rewriter *rw, cm_node *before, const cm_node *like,
                          const cm_product *p, cm_node **out) CM_MUST_USE;

#endif
