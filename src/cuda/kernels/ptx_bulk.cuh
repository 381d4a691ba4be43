// ptx_bulk.cuh -- sm_90's bulk copies, their barriers, and products of warp groups. wgmma() is written by
// cuda/matmul_wgmma.c for the width that is wanted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

struct alignas(64) tensor_map {
    u64 opaque[16];
};

DEVICE void barrier_init(u32 at, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(arrivals));
}
// After all are made, before anybody uses them.
DEVICE void barriers_made() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
DEVICE void barrier_arrive(u32 at)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
// Arrives, and makes the barrier wait for so many bytes of copies.
DEVICE void barrier_expect(u32 at, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes)
                 : "memory");
}
// Until the phase of this parity is over.
#define BARRIER_WAIT(order, at, parity)                                                            \
    asm volatile("{\n\t.reg .pred p;\n"                                                            \
                 "WAIT:\n\tmbarrier.try_wait.parity" order ".shared::cta.b64 p, [%0], %1;\n\t"      \
                 "@p bra DONE;\n\tbra WAIT;\nDONE:\n\t}" ::"r"(at),                                \
                 "r"(parity)                                                                       \
                 : "memory")
DEVICE void barrier_wait(u32 at, int parity) { BARRIER_WAIT("", at, parity); }
// The same where other blocks of the cluster have written what is then read.
DEVICE void barrier_wait_for_cluster(u32 at, int parity) { BARRIER_WAIT(".acquire.cluster", at, parity); }

// The same barrier in block `rank` of the cluster.
DEVICE void barrier_arrive_in(u32 at, u32 rank)
{
    asm volatile("{\n\t.reg .u32 t;\n\tmapa.shared::cluster.u32 t, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [t];\n\t}" ::"r"(at),
                 "r"(rank)
                 : "memory");
}

// The same place in block `rank` of the cluster; what goes there.
DEVICE u32 address_in(u32 at, u32 rank)
{
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
    return there;
}
// Four numbers to another block, whose barrier is told.
DEVICE void send_floats(u32 there, float x, float y, float z, float w, u32 barrier_there)
{
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(there),
                 "f"(x), "f"(y), "f"(z), "f"(w), "r"(barrier_there)
                 : "memory");
}
// All threads of the cluster, whole warps: this one is here, all are. What they wrote is not waited for.
DEVICE void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
DEVICE void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
DEVICE float4 load_shared_floats(u32 at)
{
    float4 v;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at)
                 : "memory");
    return v;
}

// To the same place in both blocks of a cluster; the barriers of both are told.
DEVICE void copy_box_to_both(u32 to, const tensor_map &map, u32 barrier, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"((u16)3)
                 : "memory");
}

DEVICE void copy_box(u32 to, const tensor_map &map, u32 barrier, int x, int y, int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

// Tensor maps are fetched before they are used.
DEVICE void prefetch_map(const tensor_map &map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// A box towards the L2 cache.
DEVICE void prefetch_box(const tensor_map &map, int x, int y, int z)
{
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(&map), "r"(x),
                 "r"(y), "r"(z)
                 : "memory");
}

// Four 8x8 matrices, as load_fragments has them.
DEVICE void store_fragments(u32 at, const u32 (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(r[0]),
                 "r"(r[1]), "r"(r[2]), "r"(r[3])
                 : "memory");
}

// What this thread wrote to shared memory is there for products and bulk copies of other threads, once they are told.
DEVICE void fence_for_bulk() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void products_end_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> DEVICE void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// For a whole warp group of a kernel that was compiled for less, or more.
template <int N> DEVICE void more_registers()
{
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}
template <int N> DEVICE void fewer_registers()
{
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}
