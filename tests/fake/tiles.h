/* tiles.h -- AMX for machines without it: the instructions on tiles as functions on plain arrays.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Sources that use the intrinsics are built with this included first (Makefile: TILES). */
#ifndef CM_TESTS_FAKE_TILES_H
#define CM_TESTS_FAKE_TILES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

void fake_tile_configure(const void *from);
void fake_tile_release(void);
void fake_tile_zero(int tile);
void fake_tile_load(int tile, const void *from, int64_t stride);
void fake_tile_store(int tile, void *to, int64_t stride);
/* to += a * b: pairs of bfloat16, groups of four bytes. */
void fake_tile_multiply_bf16(int to, int a, int b);
void fake_tile_multiply_int8(int to, int a, int b);

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#undef _tile_dpbssd
#define _tile_loadconfig   fake_tile_configure
#define _tile_release      fake_tile_release
#define _tile_zero         fake_tile_zero
#define _tile_loadd        fake_tile_load
#define _tile_stream_loadd fake_tile_load
#define _tile_stored       fake_tile_store
#define _tile_dpbf16ps     fake_tile_multiply_bf16
#define _tile_dpbssd       fake_tile_multiply_int8

#endif
