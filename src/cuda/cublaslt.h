/* cublaslt.h -- the functions of cuBLASLt that we call, as we declare them.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef CM_CUDA_CUBLASLT_H
#define CM_CUDA_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/driver.h"

enum {                   /* its enumerations, as far as they are used */
       CM_LT_FLOAT = 68, /* compute in float32 */
       CM_LT_TF32 = 77,
       CM_LT_R_32F = 0, /* element types */
       CM_LT_R_16F = 2,
       CM_LT_R_16BF = 14,
       CM_LT_TRANSPOSE_A = 3, /* of a product */
       CM_LT_TRANSPOSE_B = 4,
       CM_LT_EPILOGUE = 7,
       CM_LT_BIAS_POINTER = 8,
       CM_LT_BIAS_TYPE = 26,
       CM_LT_BATCH_COUNT = 5, /* of a matrix */
       CM_LT_BATCH_STRIDE = 6,
       CM_LT_MOST_WORKSPACE = 1, /* of a preference */
       CM_LT_EPILOGUE_NONE = 1,
       CM_LT_EPILOGUE_BIAS = 4,
};

/* Descriptions live in memory of the caller. */
typedef struct cm_lt_product {
    uint64_t data[32];
} cm_lt_product;
typedef struct cm_lt_matrix {
    uint64_t data[8];
} cm_lt_matrix;
typedef struct cm_lt_preference {
    uint64_t data[8];
} cm_lt_preference;
typedef struct cm_lt_way {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} cm_lt_way;

typedef struct cm_cublaslt {
    int (*create)(void **handle);
    int (*product_init)(cm_lt_product *p, size_t size, int compute, int scale);
    int (*product_set)(cm_lt_product *p, int what, const void *value, size_t size);
    int (*matrix_init)(cm_lt_matrix *m, size_t size, int type, uint64_t rows, uint64_t cols,
                       int64_t pitch);
    int (*matrix_set)(cm_lt_matrix *m, int what, const void *value, size_t size);
    int (*preference_init)(cm_lt_preference *p, size_t size);
    int (*preference_set)(cm_lt_preference *p, int what, const void *value, size_t size);
    int (*ways)(void *handle, const cm_lt_product *p, const cm_lt_matrix *a, const cm_lt_matrix *b,
                const cm_lt_matrix *c, const cm_lt_matrix *d, const cm_lt_preference *preference,
                int most, cm_lt_way *out, int *n);
    int (*multiply)(void *handle, const cm_lt_product *p, const void *alpha, const void *a,
                    const cm_lt_matrix *a_matrix, const void *b, const cm_lt_matrix *b_matrix,
                    const void *beta, const void *c, const cm_lt_matrix *c_matrix, void *d,
                    const cm_lt_matrix *d_matrix, const void *algorithm, void *workspace,
                    size_t workspace_bytes, cm_cu_stream stream);
} cm_cublaslt;

/* Opened once per process; NULL: it was not found, or lacks one of these. */
const cm_cublaslt *cm_cublaslt_get(void);

#endif
