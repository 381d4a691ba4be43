/* depthwise.c -- depthwise convolutions at the level generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/conv_depthwise.h"
#include "cpu/simd/conv_depthwise_plane.h"
