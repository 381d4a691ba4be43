// rows_batches.cuh -- what a thread keeps in shared memory, BATCHES batches of PER vectors, each a group of asynchronous copies.
// SPDX-License-Identifier: Apache-2.0
//
// Follows rows.cuh. A thread reads what it has copied itself and nothing else: copies need no barrier, and where it has read for the last time
// it lets the next come.
#pragma once

enum { BATCHES = 4 };

// Until batch g is here; those behind it may be on their way.
DEVICE void wait_for_batch(int g)
{
    static_assert(BATCHES == 4, "a case for each");
    if (g == 0)
        copies_wait<3>();
    else if (g == 1)
        copies_wait<2>();
    else if (g == 2)
        copies_wait<1>();
    else
        copies_wait<0>();
}
