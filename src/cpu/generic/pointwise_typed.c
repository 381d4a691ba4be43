/* pointwise_typed.c -- instructions in the elements' own type at the level generic.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cpu/simd/pointwise_typed.h"
