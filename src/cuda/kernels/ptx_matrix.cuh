// ptx_matrix.cuh -- the instructions that matrix kernels are made of: asynchronous copies, fragments, products.
// SPDX-License-Identifier: Apache-2.0
//
// Addresses in shared memory are 32-bit (shared_address). Before sm_80 a copy is a load and a store.
#pragma once

#define INLINE __device__ __forceinline__ // members, specialisations

DEVICE u32 shared_address(const void *p)
{
    u32 r;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(r) : "l"(p));
    return r;
}

// 16 bytes to shared memory; zeros where not `valid` (`from` is then not read).
DEVICE void copy16(u32 to, const void *from, bool valid)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
                 "r"(valid ? 16 : 0));
#else
    uint4 v = valid ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w));
#endif
}

// A line of memory towards the L2 cache.
DEVICE void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

DEVICE void store_shared16(u32 to, uint4 v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z),
                 "r"(v.w));
}

DEVICE u32 load_shared4(u32 at)
{
    u32 v;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(at));
    return v;
}

DEVICE void copies_end_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

// Until at most N of this thread's groups are still on their way.
template <int N> DEVICE void copies_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

// Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8.
DEVICE void load_fragments(u32 (&r)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}
DEVICE void load_fragments_transposed(u32 (&r)[4], u32 at)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

// c += a b: 16 x 8 results from 16 (16-bit elements) or 8 (tf32) products each.
template <class T>
DEVICE void multiply_fragments(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1);

#if __CUDA_ARCH__ >= 800
#define FRAGMENT_PRODUCT(type, shape, name)                                                        \
    template <>                                                                                    \
    INLINE void multiply_fragments<type>(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)         \
    {                                                                                              \
        asm volatile("mma.sync.aligned." shape ".row.col.f32." name "." name ".f32 "               \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"             \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                              \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));              \
    }
FRAGMENT_PRODUCT(f16, "m16n8k16", "f16")
FRAGMENT_PRODUCT(bf16, "m16n8k16", "bf16")
FRAGMENT_PRODUCT(float, "m16n8k8", "tf32")
#else
template <>
INLINE void multiply_fragments<f16>(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1)
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[2]), "r"(a[3]), "r"(b1));
}
#endif

// To the nearest number that tf32 has; 16-bit pairs are as they should be.
template <class T> DEVICE u32 shortened(u32 v) { return v; }
#if __CUDA_ARCH__ >= 800
template <> INLINE u32 shortened<float>(u32 v)
{
    u32 r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(__uint_as_float(v)));
    return r;
}
#endif

// Of a grid that may begin before its predecessor ends: nothing of it is read before this.
DEVICE void wait_for_predecessor()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#if __CUDA_ARCH__ >= 900
DEVICE u32 rank_in_cluster()
{
    u32 r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
DEVICE void cluster_barrier()
{
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}
// From the same place in another block of the cluster.
DEVICE float4 load_cluster16(u32 at, u32 rank)
{
    float4 v;
    asm volatile("{ .reg .u32 t; mapa.shared::cluster.u32 t, %4, %5;\n\t"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [t]; }"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at), "r"(rank)
                 : "memory");
    return v;
}
// To the same place in another block of the cluster.
DEVICE void store_cluster(u32 at, u32 rank, float v)
{
    asm volatile("{ .reg .u32 t; mapa.shared::cluster.u32 t, %0, %1;\n\t"
                 "st.shared::cluster.f32 [t], %2; }" ::"r"(at),
                 "r"(rank), "f"(v)
                 : "memory");
}
DEVICE void store_cluster(u32 at, u32 rank, double v)
{
    asm volatile("{ .reg .u32 t; mapa.shared::cluster.u32 t, %0, %1;\n\t"
                 "st.shared::cluster.f64 [t], %2; }" ::"r"(at),
                 "r"(rank), "d"(v)
                 : "memory");
}
#endif
