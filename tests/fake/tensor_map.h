/* tensor_map.h -- what the fake driver writes down of a tensor map; the 128 bytes that kernels are given hold its address.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef FAKE_TENSOR_MAP_H
#define FAKE_TENSOR_MAP_H

#include <stdint.h>

#define TENSOR_MAP_MAGIC 0x7e5704a9u

typedef struct {
    uint32_t magic;
    int rank, size; /* bytes of an element */
    char *base;
    uint64_t dims[5], strides[4]; /* the strides in bytes, of all axes but the first */
    uint32_t box[5], steps[5];
    int swizzle; /* bytes; 0: none */
    int is_image;
    int low[3], high[3];
    uint32_t channels, pixels;
} tensor_map;

#endif
