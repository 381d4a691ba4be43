#!/usr/bin/env python3
"""ptx_to_c.py IN.ptx OUT.c: kernels as NVRTC leaves them, as C that ptx_run.h runs on the CPU.

Registers become locals that hold bits; a thread of the GPU is a call of the kernel's C function. Addresses of global memory, of
parameters and of locals are the host's; those of shared memory are numbers (ptx_run.h). What is not known fails here, with the statement.
"""
import re
import sys

UNSIGNED = {8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
FLOATS = {"f32": "float", "f64": "double"}
SPACES = ("global", "shared", "shared::cta", "shared::cluster", "param", "local", "const")
ROUNDING = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")
VALUE_TYPE = re.compile(r"^([subf](8|16|32|64)|pred|[bf]16x2|bf16|bf16x2|f16x2|tf32)$")


class Unknown(Exception):
    pass


def bits_of(t):
    if t in ("f16x2", "bf16x2", "tf32"):
        return 32
    if t == "bf16":
        return 16
    return 8 if t == "pred" else int(re.sub(r"\D", "", t))


def c_type(t):
    """What a value of the type is calculated in."""
    if t in FLOATS:
        return FLOATS[t]
    if t == "pred":
        return "uint8_t"
    return ("int%d_t" if t[0] == "s" else "uint%d_t") % bits_of(t)


def split_list(text):
    """At commas that are in no bracket."""
    out, depth, at = [], 0, 0
    for i, c in enumerate(text):
        depth += c in "{[(" and 1 or c in "}])" and -1
        if c == "," and depth == 0:
            out.append(text[at:i].strip())
            at = i + 1
    last = text[at:].strip()
    return out + [last] if last else out


def statements(text):
    """Of a body: '{', '}', ('label', name) and statements without their semicolon."""
    i, n = 0, len(text)
    while i < n:
        c = text[i]
        if c.isspace() or c == ";":
            i += 1
        elif c in "{}":
            yield c
            i += 1
        else:
            m = re.compile(r"([$\w]+)\s*:(?!:)").match(text, i)
            if m:
                yield ("label", m.group(1))
                i = m.end()
                continue
            end = text.index(";", i)
            yield " ".join(text[i:end].split())
            i = end + 1


def name_of(symbol):
    return "V_" + re.sub(r"[^\w]", "_", symbol.replace("%", "R_"))  # no name of ptx_run.h


class Function:
    def __init__(self, module, name, entry, returns, params):
        self.module, self.name, self.entry = module, name, entry
        self.returns, self.params = returns, params
        self.symbols = {p: name_of(p) for p, _, _ in params + returns}
        self.out, self.types, self.scopes, self.unique = [], {}, [], 0

    # Operands

    def place(self, symbol):
        """The C expression of a symbol's address in its space; None where it is none."""
        if symbol in self.symbols:
            return "(uint64_t)(uintptr_t)%s" % self.symbols[symbol]
        if symbol in self.module.shared:
            return "(uint64_t)own_address(t, AT_%s)" % name_of(symbol)
        if symbol in self.module.globals:
            return "(uint64_t)(uintptr_t)%s" % name_of(symbol)
        return None

    SPECIAL = {"laneid": "t->lane", "warpid": "t->warp", "cluster_ctarank": "t->b->rank",
               "cluster_nctarank": "t->b->cluster->n", "clock": "0", "clock64": "0",
               "dynamic_smem_size": "t->b->dynamic"}

    def raw(self, o):
        """Bits of a register, a number, a symbol."""
        if o.startswith("%") and (o[1:] in self.SPECIAL or "." in o):
            stem, _, axis = o[1:].partition(".")
            if stem in self.SPECIAL:
                return "(%s)" % self.SPECIAL[stem]
            return "t->%s[%d]" % (stem, "xyz".index(axis))
        m = re.match(r"^0[fF]([0-9a-fA-F]{8})$", o) or re.match(r"^0[dD]([0-9a-fA-F]{16})$", o)
        if m:
            return "UINT%d_C(0x%s)" % (len(m.group(1)) * 4, m.group(1))
        if re.match(r"^-?(0[xX][0-9a-fA-F]+|\d+)U?$", o):
            value = int(o.rstrip("U"), 0)
            return "%dLL" % value if value < 1 << 63 else "%dULL" % value
        if o in self.types:
            return name_of(o)
        place = self.place(o)
        if place:
            return place
        m = re.match(r"^(\S+?)\s*\+\s*(-?\d+)$", o)
        if m:
            return "(%s + (%s))" % (self.raw(m.group(1)), m.group(2))
        if o == "WARP_SZ":
            return "32"
        raise Unknown("operand %s" % o)

    def value(self, o, t):
        if o.startswith("-") and o[1:] in self.types:
            return "-" + self.value(o[1:], t)
        if o.startswith("!"):
            return "!" + self.raw(o[1:])
        r = self.raw(o)
        if t == "f32":
            return "as_f32((uint32_t)%s)" % r
        if t == "f64":
            return "as_f64(%s)" % r
        if t == "pred":
            return "((%s) != 0)" % r
        return "((%s)(%s))" % (c_type(t), r)

    def set(self, d, t, expression):
        """d = expression, which has t's C type."""
        if d == "_":
            return "(void)(%s);" % expression
        if t == "f32":
            expression = "of_f32(%s)" % expression
        elif t == "f64":
            expression = "of_f64(%s)" % expression
        elif t[0] == "s" and bits_of(t) < self.types[d]:
            expression = "(int%d_t)(%s)" % (self.types[d], "(%s)(%s)" % (c_type(t), expression))
        elif t != "pred":
            expression = "(%s)(%s)" % (c_type(t), expression)
        return "%s = (%s)(%s);" % (name_of(d), UNSIGNED[self.types[d]], expression)

    def address(self, o, space):
        """A host pointer: [register + offset] or [symbol + offset]."""
        m = re.match(r"^\[\s*([^\s+\]]+)\s*(?:\+\s*(-?\d+))?\s*\]$", o)
        if not m:
            raise Unknown("address %s" % o)
        at = "(%s + (%sLL))" % (self.raw(m.group(1)), m.group(2) or "0")
        return self.pointer(at, space)

    @staticmethod
    def pointer(at, space, size=0):
        if space.startswith("shared"):
            return "shared_at(t, (uint32_t)%s, %s)" % (at, size or "SIZE")
        return "((char *)(uintptr_t)%s)" % at

    # Instructions

    def emit(self, line):
        self.out.append(line)

    def declare(self, text):
        kind, rest = text.split(None, 1)
        if kind == ".reg":
            t, names = rest.split(None, 1)
            bits = bits_of(t[1:])
            for n in split_list(names):
                m = re.match(r"^(.*)<(\d+)>$", n)
                all_names = [m.group(1) + str(i) for i in range(int(m.group(2)))] if m else [n]
                for r in all_names:
                    self.types[r] = bits
                self.emit("%s %s;" % (UNSIGNED[bits], ", ".join(name_of(r) + " = 0" for r in all_names)))
        elif kind in (".param", ".local"):
            m = re.match(r"^(?:\.align (\d+) )?\.(\w\d+) ([\w$]+)(?:\[(\d+)\])?$", rest)
            size = int(m.group(4) or 1) * bits_of(m.group(2)) // 8
            self.symbols[m.group(3)] = name_of(m.group(3))
            self.emit("_Alignas(%s) char %s[%d]; memset(%s, 0, %d);" % (m.group(1) or 8, name_of(m.group(3)), size, name_of(m.group(3)), size))
        elif kind == ".shared":
            pass  # gathered before
        elif kind != ".pragma" and kind != ".loc":
            raise Unknown(text)

    def statement(self, text):
        if text.startswith("."):
            return self.declare(text)
        guard = ""
        m = re.match(r"^@(!?)(\S+)\s+(.*)$", text)
        if m:
            guard, text = "if (%s%s) " % (m.group(1), self.raw(m.group(2))), m.group(3)
        head, _, rest = text.partition(" ")
        parts = head.split(".")
        method = getattr(self, "op_" + parts[0], None)
        if not method:
            raise Unknown(head)
        self.emit("%s{ %s }" % (guard, method(parts[1:], split_list(rest), rest)))

    def kinds(self, mods):
        return [m for m in mods if VALUE_TYPE.match(m)]

    def lists(self, o):
        return [x.strip() for x in o.strip()[1:-1].split(",")]

    def op_mov(self, mods, o, _):
        t = self.kinds(mods)[0]
        if o[0].startswith("{"):
            parts = self.lists(o[0])
            each = bits_of(t) // len(parts)
            return "uint64_t v_ = (uint64_t)%s; " % self.raw(o[1]) + " ".join(
                "%s = (%s)(v_ >> %d);" % (name_of(d), UNSIGNED[each], i * each) for i, d in enumerate(parts) if d != "_")
        if o[1].startswith("{"):
            parts = self.lists(o[1])
            each = bits_of(t) // len(parts)
            return self.set(o[0], "b%d" % bits_of(t), " | ".join(
                "(uint64_t)(%s)%s << %d" % (UNSIGNED[each], self.raw(s), i * each) for i, s in enumerate(parts)))
        if t == "pred":
            return self.set(o[0], t, self.value(o[1], t))
        return self.set(o[0], "b%d" % bits_of(t), self.raw(o[1]))

    def binary(self, mods, o, floats, integer):
        t = self.kinds(mods)[-1]
        a, b = (self.value(x, t) for x in o[1:3])
        if t in FLOATS:
            r = next((m for m in mods if m in ROUNDING), "rn")
            if r != "rn" and floats[0] not in "m":
                e = "rounded_%s(%d, %s, %s)" % ({"+": "add", "-": "sub", "*": "mul"}[floats], "rz rm rp".split().index(r), a, b)
            else:
                e = floats(a, b) if callable(floats) else "%s %s %s" % (a, floats, b)
            if "sat" in mods:
                e = "saturated(%s)" % e
            return self.set(o[0], t, e)
        if t == "pred":
            return self.set(o[0], t, "%s %s %s" % (a, integer, b))
        if t in ("f16", "f16x2", "bf16", "bf16x2"):
            raise Unknown("arithmetic in " + t)
        # in unsigned, so that nothing overflows
        return self.set(o[0], t, integer(a, b) if callable(integer) else
                        "(uint64_t)%s %s (uint64_t)%s" % (a, integer, b))

    def op_add(self, m, o, _): return self.binary(m, o, "+", "+")
    def op_sub(self, m, o, _): return self.binary(m, o, "-", "-")
    def op_and(self, m, o, _): return self.binary(m, o, "&", "&")
    def op_or(self, m, o, _): return self.binary(m, o, "|", "|")
    def op_xor(self, m, o, _): return self.binary(m, o, "^", "^")

    def op_mul(self, mods, o, _):
        t = self.kinds(mods)[-1]
        a, b = (self.value(x, t) for x in o[1:3])
        if "wide" in mods:
            wide = t[0] + str(2 * bits_of(t))
            return self.set(o[0], wide, "(%s)%s * (%s)%s" % (c_type(wide), a, c_type(wide), b))
        if "hi" in mods:
            wide = "__int128" if t[0] == "s" else "unsigned __int128"
            return self.set(o[0], t, "((%s)%s * (%s)%s) >> %d" % (wide, a, wide, b, bits_of(t)))
        return self.binary(mods, o, "*", "*")

    def op_mad(self, mods, o, _):
        t = self.kinds(mods)[-1]
        if t in FLOATS:
            return self.op_fma(mods, o, _)
        if "wide" in mods:
            wide = t[0] + str(2 * bits_of(t))
            return self.set(o[0], wide, "(uint64_t)((int64_t)%s * (int64_t)%s) + (uint64_t)%s" % (
                self.value(o[1], t), self.value(o[2], t), self.value(o[3], wide)))
        if "hi" in mods:
            raise Unknown("mad.hi")
        return self.set(o[0], t, "(uint64_t)%s * (uint64_t)%s + (uint64_t)%s" % tuple(self.value(x, t) for x in o[1:4]))

    def op_fma(self, mods, o, _):
        t = self.kinds(mods)[-1]
        r = next((m for m in mods if m in ROUNDING), "rn")
        a = ", ".join(self.value(x, t) for x in o[1:4])
        e = "%s(%s)" % ("fmaf" if t == "f32" else "fma", a)
        if r != "rn":
            e = "rounded_fma(%d, %s)" % ("rz rm rp".split().index(r), a)
        if "sat" in mods:
            e = "saturated(%s)" % e
        return self.set(o[0], t, e)

    def op_div(self, mods, o, _):
        return self.binary(mods, o, "/", lambda a, b: "%s / %s" % (a, b))

    def op_rem(self, mods, o, _):
        return self.binary(mods, o, "%", lambda a, b: "%s %% %s" % (a, b))

    def smaller(self, mods, o, which):
        nan = "_nan" if "NaN" in mods else ""
        sign = "<" if which == "min" else ">"
        return self.binary(mods, o, lambda a, b: "m%s%s(%s, %s)" % (which, nan, a, b),
                           lambda a, b: "%s %s %s ? %s : %s" % (a, sign, b, a, b))

    def op_min(self, m, o, _): return self.smaller(m, o, "min")
    def op_max(self, m, o, _): return self.smaller(m, o, "max")

    def unary(self, mods, o, make):
        t = self.kinds(mods)[-1]
        return self.set(o[0], t, make(self.value(o[1], t), t))

    def op_neg(self, m, o, _): return self.unary(m, o, lambda a, t: "-%s" % a if t in FLOATS else "0 - (uint64_t)%s" % a)
    def op_abs(self, m, o, _): return self.unary(m, o, lambda a, t: "fabs(%s)" % a if t in FLOATS else "%s < 0 ? -%s : %s" % (a, a, a))
    def op_not(self, m, o, _): return self.unary(m, o, lambda a, t: "!%s" % a if t == "pred" else "~%s" % a)
    def op_sqrt(self, m, o, _): return self.unary(m, o, lambda a, t: ("sqrtf(%s)" if t == "f32" else "sqrt(%s)") % a)
    def op_rsqrt(self, m, o, _): return self.unary(m, o, lambda a, t: "1 / " + ("sqrtf(%s)" if t == "f32" else "sqrt(%s)") % a)
    def op_rcp(self, m, o, _): return self.unary(m, o, lambda a, t: "1 / %s" % a)
    def op_ex2(self, m, o, _): return self.unary(m, o, lambda a, t: "exp2f(%s)" % a)
    def op_lg2(self, m, o, _): return self.unary(m, o, lambda a, t: "log2f(%s)" % a)
    def op_sin(self, m, o, _): return self.unary(m, o, lambda a, t: "sinf(%s)" % a)
    def op_cos(self, m, o, _): return self.unary(m, o, lambda a, t: "cosf(%s)" % a)
    def op_tanh(self, m, o, _): return self.unary(m, o, lambda a, t: "tanhf(%s)" % a)
    def op_brev(self, m, o, _): return self.unary(m, o, lambda a, t: "reversed(%s)" % a)
    def op_popc(self, m, o, _): return self.set(o[0], "u32", "__builtin_popcountll(%s)" % self.value(o[1], m[0]))
    def op_clz(self, m, o, _): return self.set(o[0], "u32", "leading_zeros(%s, %d)" % (self.value(o[1], m[0]), bits_of(m[0])))

    def op_copysign(self, mods, o, _):
        return self.set(o[0], mods[-1], "copysign(%s, %s)" % (self.value(o[2], mods[-1]), self.value(o[1], mods[-1])))

    def op_bfind(self, mods, o, _):
        t = self.kinds(mods)[0]
        if t != "u32":
            raise Unknown("bfind." + t)
        lead = "leading_zeros(%s, 32)" % self.value(o[1], t)
        return self.set(o[0], "u32", "%s == 0 ? -1 : (%s)" % (self.value(o[1], t), lead if "shiftamt" in mods else "31 - " + lead))

    def shift(self, mods, o, sign):
        t = self.kinds(mods)[0]
        by, n = self.value(o[2], "u32"), bits_of(t)
        beyond = "0" if t[0] != "s" else "(%s < 0 ? -1 : 0)" % self.value(o[1], t)
        return self.set(o[0], t, "%s >= %d ? (%s)%s : (%s)(%s %s %s)" % (
            by, n, c_type(t), beyond, c_type(t), self.value(o[1], t), sign, by))

    def op_shl(self, m, o, _): return self.shift(["b%d" % bits_of(self.kinds(m)[0])], o, "<<")
    def op_shr(self, m, o, _): return self.shift(m, o, ">>")

    def op_shf(self, mods, o, _):
        e = "funnel_%s%s(%s, %s, %s)" % (mods[0], "_clamp" if "clamp" in mods else "", *(self.value(x, "u32") for x in o[1:4]))
        return self.set(o[0], "b32", e)

    def op_bfe(self, mods, o, _):
        t = mods[0]
        return self.set(o[0], t, "(%s)field_%s%d(%s, %s, %s)" % (c_type(t), t[0], bits_of(t), self.value(o[1], t), self.value(o[2], "u32"), self.value(o[3], "u32")))

    def op_bfi(self, mods, o, _):
        t = mods[0]
        return self.set(o[0], t, "inserted(%s, %s, %s, %s, %d)" % (self.value(o[1], t), self.value(o[2], t), self.value(o[3], "u32"), self.value(o[4], "u32"), bits_of(t)))

    def op_prmt(self, mods, o, _):
        if mods != ["b32"]:
            raise Unknown("prmt." + ".".join(mods))
        return self.set(o[0], "b32", "permuted(%s, %s, %s)" % tuple(self.value(x, "u32") for x in o[1:4]))

    def op_lop3(self, mods, o, _):
        return self.set(o[0], "b32", "of_table(%s, %s, %s, %s)" % tuple(self.value(x, "u32") for x in o[1:5]))

    def op_dp4a(self, mods, o, _):
        return self.set(o[0], "s32", "dot4_%s%s(%s, %s, %s)" % (mods[0][0], mods[1][0], *(self.value(x, "u32") for x in o[1:4])))

    def op_selp(self, mods, o, _):
        t = "b%d" % bits_of(mods[0])
        return self.set(o[0], t, "%s ? %s : %s" % (self.value(o[3], "pred"), self.value(o[1], t), self.value(o[2], t)))

    COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">="}

    def op_setp(self, mods, o, _):
        t, how = self.kinds(mods)[-1], mods[0]
        a, b = self.value(o[1], t), self.value(o[2], t)
        if how in self.COMPARE:
            e = "%s %s %s" % (a, self.COMPARE[how], b)
            if how == "ne" and t in FLOATS:
                e = "%s < %s || %s > %s" % (a, b, a, b)
        elif how == "nan":
            e = "isnan(%s) || isnan(%s)" % (a, b)
        elif how == "num":
            e = "!isnan(%s) && !isnan(%s)" % (a, b)
        elif how[:2] in self.COMPARE and how[2:] == "u":
            e = "!isnan(%s) && !isnan(%s) ? %s %s %s : 1" % (a, b, a, self.COMPARE[how[:2]], b)
        else:
            raise Unknown("setp." + how)
        join = next((m for m in mods[1:] if m in ("and", "or", "xor")), None)
        if join:
            e = "(%s) %s %s" % (e, {"and": "&", "or": "|", "xor": "^"}[join], self.value(o[3], "pred"))
        d = o[0].split("|")
        other = " %s = !(%s);" % (name_of(d[1]), e) if len(d) > 1 and d[1] != "_" else ""
        return other + " " + self.set(d[0], "pred", e)

    def op_cvt(self, mods, o, _):
        to, of = self.kinds(mods)[:2]
        r = next((m for m in mods if m in ROUNDING), "")
        if to in ("f16x2", "bf16x2"):
            f = "of_half" if to == "f16x2" else "of_bf16"
            return self.set(o[0], "b32", "(uint32_t)%s(%s) << 16 | %s(%s)" % (f, self.value(o[1], of), f, self.value(o[2], of)))
        e = {"f16": "as_half(%s)", "bf16": "as_bf16(%s)"}.get(of, "%s") % self.value(o[1], "b16" if of in ("f16", "bf16") else of)
        is_float = of in ("f16", "bf16", "f32", "f64")
        if to == "tf32":
            return self.set(o[0], "b32", "of_tf32(%s)" % e)
        if to in ("f16", "bf16"):
            return self.set(o[0], "b16", "%s(%s)" % ("of_half" if to == "f16" else "of_bf16", e))
        if to in FLOATS:
            if is_float and r in ("rni", "rzi", "rmi", "rpi"):
                e = "%s(%s)" % ({"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[r], e)
            elif r == "rz" and to == "f32":
                e = "cut_f32(%s)" % e
            elif r not in ("", "rn"):
                raise Unknown("cvt." + r)
            e = "(%s)%s" % (FLOATS[to], e)
            return self.set(o[0], to, "saturated(%s)" % e if "sat" in mods else e)
        if is_float:
            e = "to_integer(%s(%s), %d, %d)" % ({"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}[r], e, bits_of(to), to[0] == "s")
        elif "sat" in mods:
            e = "clamped(%s, %d, %d)" % (e, bits_of(to), to[0] == "s")
        return self.set(o[0], to, e)

    def op_cvta(self, mods, o, _):
        if "to" in mods:
            return self.set(o[0], "u64", "shared_address(t, %s)" % self.raw(o[1]) if mods[1].startswith("shared") else self.raw(o[1]))
        if mods[0].startswith("shared"):
            return self.set(o[0], "u64", "(uint64_t)(uintptr_t)shared_at(t, (uint32_t)%s, 0)" % self.raw(o[1]))
        return self.set(o[0], "u64", self.raw(o[1]))

    def space(self, mods):
        return next((m for m in mods if m in SPACES), "generic")

    def op_ld(self, mods, o, _):
        t = self.kinds(mods)[-1]
        size = bits_of(t) // 8
        ds = self.lists(o[0]) if o[0].startswith("{") else [o[0]]
        kind = c_type(t) if t not in FLOATS else UNSIGNED[bits_of(t)]
        at = self.address(o[1], self.space(mods)).replace("SIZE", str(size * len(ds)))
        lines = ["%s v_[%d]; memcpy(v_, aligned(%s, %d), %d);" % (kind, len(ds), at, size * len(ds), size * len(ds))]
        for i, d in enumerate(ds):
            if d != "_":
                lines.append(self.set(d, t if t[0] == "s" else "b%d" % bits_of(t), "v_[%d]" % i))
        return " ".join(lines)

    def op_st(self, mods, o, _):
        t = self.kinds(mods)[-1]
        size, kind = bits_of(t) // 8, UNSIGNED[bits_of(t)]
        ss = self.lists(o[1]) if o[1].startswith("{") else [o[1]]
        at = self.address(o[0], self.space(mods)).replace("SIZE", str(size * len(ss)))
        return "%s v_[%d] = {%s}; memcpy(aligned(%s, %d), v_, %d);" % (
            kind, len(ss), ", ".join("(%s)%s" % (kind, self.raw(s)) for s in ss), at, size * len(ss), size * len(ss)) + (
                " barrier_bytes(%s, %d);" % (self.address(o[2], "shared").replace("SIZE", "8"), size * len(ss)) if mods[0] == "async" else "")

    ATOMIC = {"add": "a_ + b_", "min": "a_ < b_ ? a_ : b_", "max": "a_ > b_ ? a_ : b_", "and": "a_ & b_", "or": "a_ | b_",
              "xor": "a_ ^ b_", "exch": "b_", "inc": "a_ >= b_ ? 0 : a_ + 1"}

    def op_atom(self, mods, o, _):
        t = self.kinds(mods)[-1]
        if t in ("f16", "f16x2", "bf16", "bf16x2"):
            raise Unknown("atom." + t)
        size = bits_of(t) // 8
        at = self.address(o[1], self.space(mods)).replace("SIZE", str(size))
        kind = c_type(t)
        text = "%s a_, n_, b_ = %s; char *at_ = aligned(%s, %d); memcpy(&a_, at_, %d); " % (kind, self.value(o[2], t), at, size, size)
        if "cas" in mods:
            text += "n_ = a_ == b_ ? %s : a_; " % self.value(o[3], t)
        else:
            text += "n_ = %s; " % self.ATOMIC[next(m for m in mods if m in self.ATOMIC)]
        return text + "memcpy(at_, &n_, %d); %s" % (size, self.set(o[0], t, "a_"))

    def op_red(self, mods, o, _):
        if mods[0] == "async":
            raise Unknown("red.async")
        return self.op_atom(mods, ["_"] + o, _)

    # Control

    def op_bra(self, mods, o, _):
        return "goto %s;" % self.label(o[0])

    def op_ret(self, *_):
        return "return;"
    op_exit = op_ret

    def op_trap(self, *_):
        return 'broken(t, "trap");'

    def op_call(self, mods, o, rest):
        m = re.match(r"^(?:\(\s*([^)]*?)\s*\)\s*,)?\s*([\w$]+)\s*,?\s*(?:\(\s*([^)]*?)\s*\))?$", rest)
        names = [m.group(1)] if m.group(1) else []
        names += split_list(m.group(3) or "")
        return "F_%s(%s);" % (name_of(m.group(2)), ", ".join(["t"] + [self.symbols[x] for x in names]))

    # Threads together

    def op_bar(self, mods, o, _):
        if mods[0] == "warp":
            return "warp_meet(t, %s);" % self.value(o[0], "u32")
        if mods[0] == "red":
            how = "and or popc".split().index(mods[1])
            d, rest = o[0], o[1:]
            n = self.value(rest[1], "u32") if len(rest) == 3 else "0"
            p = rest[-1]
            kind = "pred" if "pred" in mods else "u32"
            return self.set(d, kind, "block_reduce(t, %s, %s, %d, %s)" % (self.value(rest[0], "u32"), n, how, self.value(p, "pred")))
        if mods[0] not in ("sync", "arrive"):
            raise Unknown("bar." + mods[0])
        n = self.value(o[1], "u32") if len(o) > 1 else "0"
        return "block_%s(t, %s, %s);" % ("meet" if mods[0] == "sync" else "arrive", self.value(o[0], "u32"), n)

    def op_barrier(self, mods, o, _):
        if mods[0] == "cluster":
            return "cluster_%s(t);" % mods[1]
        return self.op_bar(mods, o, _)

    def op_shfl(self, mods, o, _):
        d = o[0].split("|")
        text = "uint8_t p_; uint32_t v_ = shuffled_%s(t, %s, %s, %s, %s, &p_); " % (mods[1], *(self.value(x, "u32") for x in o[1:5]))
        if len(d) > 1 and d[1] != "_":
            text += "%s = p_; " % name_of(d[1])
        return text + self.set(d[0], "b32", "v_")

    def op_vote(self, mods, o, _):
        ballot = "ballot(t, %s, %s)" % (self.value(o[1], "pred"), self.value(o[2], "u32"))
        e = {"ballot": ballot, "any": ballot + " != 0", "all": "%s == (%s & t->present)" % (ballot, self.value(o[2], "u32"))}[mods[1]]
        return self.set(o[0], "b32" if mods[1] == "ballot" else "pred", e)

    def op_redux(self, mods, o, _):
        how = next(m for m in mods if m in ("add", "min", "max", "and", "or", "xor"))
        return self.set(o[0], mods[-1], "redux_%s%s(t, %s, %s)" % (how, "_s" if mods[-1] == "s32" else "", self.value(o[1], "u32"), self.value(o[2], "u32")))

    def op_activemask(self, mods, o, _):
        raise Unknown("activemask")

    def nothing(self, *_):
        return ""
    def op_nanosleep(self, mods, o, _): return "give_way(t);"

    op_membar = op_fence = op_griddepcontrol = op_setmaxnreg = op_prefetch = op_pragma = op_discard = nothing

    def op_mapa(self, mods, o, _):
        return self.set(o[0], mods[-1], "of_rank(t, (uint32_t)%s, %s)" % (self.raw(o[1]), self.value(o[2], "u32")))

    def fragments(self, o, n):
        return "uint32_t f_[%d] = {%s};" % (n, ", ".join(self.value(x, "u32") for x in self.lists(o)))

    def op_ldmatrix(self, mods, o, _):
        ds = self.lists(o[0])
        at = re.match(r"^\[\s*(\S+?)\s*(?:\+\s*(\d+))?\]$", o[1])
        return "uint32_t f_[4]; load_matrices(t, f_, %d, %d, (uint32_t)%s + %s); " % (
            len(ds), "trans" in mods, self.raw(at.group(1)), at.group(2) or 0) + " ".join(
            self.set(d, "b32", "f_[%d]" % i) for i, d in enumerate(ds))

    def op_stmatrix(self, mods, o, _):
        ss = self.lists(o[1])
        if "trans" in mods:
            raise Unknown("stmatrix.trans")
        at = re.match(r"^\[\s*(\S+?)\s*\]$", o[0]).group(1)
        return "%s store_matrices(t, f_, %d, (uint32_t)%s);" % (self.fragments(o[1], len(ss)), len(ss), self.raw(at))

    def op_mma(self, mods, o, _):
        shape, ta, tb = mods[2], mods[-3], mods[-2]
        d, a, b, c = (self.lists(x) for x in o[:4])
        kinds = {"f16": 0, "bf16": 1, "tf32": 2, "s8": 3, "u8": 4}
        text = "uint32_t a_[4] = {%s}, b_[2] = {%s}, c_[4] = {%s}; fragment_product_%s(t, c_, a_, b_, %d, %d); " % (
            ", ".join(self.value(x, "u32") for x in a), ", ".join(self.value(x, "u32") for x in b),
            ", ".join(self.value(x, "u32") for x in c), shape, kinds[ta], kinds[tb])
        return text + " ".join(self.set(x, "b32", "c_[%d]" % i) for i, x in enumerate(d))

    def op_wgmma(self, mods, o, _):
        if mods[0] != "mma_async":
            return ""
        m = re.match(r"^m64n(\d+)k(\d+)$", mods[3])
        n, k = int(m.group(1)), int(m.group(2))
        kind = {"f16": 0, "bf16": 1, "tf32": 2}[mods[5]]
        d = self.lists(o[0])
        registers = o[1].startswith("{")
        a = "uint32_t a_[4] = {%s};" % ", ".join(self.value(x, "u32") for x in self.lists(o[1])) if registers else \
            "uint64_t a_ = %s;" % self.raw(o[1])
        rest = [int(x) for x in o[4:]]
        if rest[:2] != [1, 1]:
            raise Unknown("wgmma that negates")
        across = rest[2:] + [0, 0]
        if registers:
            across = [0] + across
        text = "uint32_t d_[%d] = {%s}; %s " % (len(d), ", ".join(name_of(x) for x in d), a)
        if registers:
            text += "uint32_t all_[32][4]; gather_fragments(t, all_, a_); "
        text += "group_product(t, d_, %s, %s, %s, %d, %d, %d, %d, %d); " % (
            "0" if registers else "a_", "all_" if registers else "NULL", self.raw(o[2]) + ", " + self.value(o[3], "pred"),
            n, k, kind, across[0], across[1])
        return text + " ".join("%s = d_[%d];" % (name_of(x), i) for i, x in enumerate(d))

    def op_mbarrier(self, mods, o, _):
        if mods[0] == "init":
            return "barrier_init(%s, %s);" % (self.address(o[0], "shared").replace("SIZE", "8"), self.value(o[1], "u32"))
        if mods[0] == "inval":
            return ""
        if mods[0] == "arrive":
            tx = self.value(o[2], "u32") if "expect_tx" in mods else "0"
            count = "1" if "expect_tx" in mods or len(o) < 3 else self.value(o[2], "u32")
            if o[0] != "_":
                raise Unknown("mbarrier.arrive with a state")
            return "barrier_arrive(%s, %s, %s);" % (self.address(o[1], "shared").replace("SIZE", "8"), count, tx)
        if mods[0] in ("try_wait", "test_wait") and "parity" in mods:
            return self.set(o[0], "pred", "barrier_passed(t, %s, %s)" % (self.address(o[1], "shared").replace("SIZE", "8"), self.value(o[2], "u32")))
        raise Unknown("mbarrier." + ".".join(mods))

    def op_cp(self, mods, o, _):
        if mods[:2] == ["async", "commit_group"]:
            return "copies_end_group(t);"
        if mods[:2] == ["async", "wait_group"]:
            return "copies_wait(t, %s);" % o[0]
        if mods[:2] == ["async", "wait_all"]:
            return "copies_end_group(t); copies_wait(t, 0);"
        if mods[:2] == ["async", "bulk"]:
            return self.bulk(mods[2:], o)
        if mods[0] == "async" and mods[1] in ("ca", "cg"):
            to = re.match(r"^\[\s*(\S+?)\s*\]$", o[0]).group(1)
            size = int(o[2])
            valid = self.value(o[3], "u32") if len(o) > 3 else str(size)
            return "copy_later(t, (uint32_t)%s, %s, %d, %s);" % (self.raw(to), self.address(o[1], "global"), size, valid)
        raise Unknown("cp." + ".".join(mods))

    def map_and_place(self, o):
        m = re.match(r"^\[\s*(\S+?)\s*,\s*\{([^}]*)\}\s*\]$", o)
        at = split_list(m.group(2))
        return "%s, (int32_t[5]){%s}" % (self.raw(m.group(1)), ", ".join(self.value(x, "s32") for x in at)), len(at)

    def bulk(self, mods, o):
        if mods[0] == "commit_group":
            return "stores_end_group(t);"
        if mods[0] == "wait_group":
            return "stores_wait(t, %s);" % o[0]
        if mods[0] == "prefetch":
            return ""
        strip = lambda x: self.raw(re.match(r"^\[\s*(\S+?)\s*\]$", x).group(1))
        if mods[0] != "tensor":
            raise Unknown("cp.async.bulk." + mods[0])
        if mods[2] == "global":  # out of shared memory
            where, n = self.map_and_place(o[0])
            return "store_box(t, %s, %d, (uint32_t)%s);" % (where, n, strip(o[1]))
        where, n = self.map_and_place(o[1])
        rest, shift, mask = o[3:], "NULL", "0"
        if "im2col" in mods:
            shift = "(uint16_t[3]){%s}" % ", ".join(self.value(x, "u16") for x in self.lists(rest.pop(0)))
        if "multicast::cluster" in mods:
            mask = self.value(rest.pop(0), "u16")
        if rest:
            raise Unknown("bulk copy with " + str(rest))
        return "fetch_box(t, (uint32_t)%s, %s, %d, (uint32_t)%s, %s, %s);" % (strip(o[0]), where, n, strip(o[2]), shift, mask)

    # The body

    def label(self, name):
        for names in reversed(self.scopes):
            if name in names:
                return names[name]
        return "L_" + name_of(name)

    def body(self, text):
        all_statements = list(statements(text))
        for i, s in enumerate(all_statements):
            if s == "{":
                depth, own = 1, {}
                for x in all_statements[i + 1:]:
                    depth += (x == "{") - (x == "}")
                    if depth == 0:
                        break
                    if isinstance(x, tuple) and depth == 1:
                        self.unique += 1
                        own[x[1]] = "L_%s_%d" % (name_of(x[1]), self.unique)
                self.scopes.append(own)
                self.emit("{")
            elif s == "}":
                self.scopes.pop()
                self.emit("}")
            elif isinstance(s, tuple):
                self.emit("%s: ;" % self.label(s[1]))
            else:
                try:
                    self.statement(s)
                except Unknown as e:
                    sys.exit("%s: not known: %s (in %s)" % (self.name, s, e))
                except Exception as e:
                    sys.exit("%s: %s: %r" % (self.name, s, e))

    def signature(self):
        args = ["thread *t"] + ["char *%s" % name_of(p) for p, _, _ in self.returns + self.params]
        return "static void F_%s(%s)" % (name_of(self.name), ", ".join(args))


class Module:
    def __init__(self, text):
        self.shared, self.globals, self.functions, self.lines = {}, set(), [], []
        text = re.sub(r"//[^\n]*", "", text)
        self.gather_shared(text)
        self.top(text)

    def gather_shared(self, text):
        """Static ones one after the other, then what is given at launch."""
        at = 1024
        for m in re.finditer(r"(?<!\.extern )\.shared \.align (\d+) \.(\w\d+) ([\w$]+)(?:\[(\d+)\])?;", text):
            align, size = int(m.group(1)), int(m.group(4) or 1) * bits_of(m.group(2)) // 8
            at = (at + align - 1) // align * align
            self.shared[m.group(3)] = at
            at += size
        self.static_end = (at + 1023) // 1024 * 1024
        for m in re.finditer(r"\.extern \.shared \.align (\d+) \.b8 ([\w$]+)\[\];", text):
            self.shared[m.group(2)] = self.static_end

    def parameters(self, text):
        out = []
        for p in split_list(text or ""):
            m = re.match(r"^\.param (?:\.align (\d+) )?\.(\w\d+) ([\w$]+)(?:\[(\d+)\])?$", " ".join(p.split()))
            size = int(m.group(4) or 1) * bits_of(m.group(2)) // 8
            out.append((m.group(3), size, int(m.group(1) or size)))
        return out

    def data(self, text):
        m = re.match(r"^(?:\.visible |\.weak |\.extern )*\.(global|const) (?:\.align (\d+) )?\.(\w\d+) ([\w$]+)(?:\[(\d*)\])?(?:\s*=\s*(.*))?$", text)
        if not m:
            sys.exit("not known: " + text)
        _, align, t, name, n, values = m.groups()
        self.globals.add(name)
        n = int(n or 1) if n is None or n != "" else len(split_list(values[1:-1]))
        init = ""
        if values:
            init = " = %s" % values if values.startswith("{") else " = {%s}" % values
            init = re.sub(r"0[fFdD]([0-9a-fA-F]+)", r"0x\1", init)
        self.lines.append("static _Alignas(%s) %s %s[%d]%s;" % (align or 8, UNSIGNED[bits_of(t)], name_of(name), n, init))

    def top(self, text):
        i = 0
        head = re.compile(r"\s*(?:\.visible |\.weak |\.extern )*\.(entry|func)\s*(?:\(([^)]*)\)\s*)?([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)")
        while i < len(text):
            m = head.match(text, i)
            if m and text[m.end()] == "{":
                depth, j = 0, m.end()
                while True:
                    depth += (text[j] == "{") - (text[j] == "}")
                    j += 1
                    if depth == 0:
                        break
                f = Function(self, m.group(3), m.group(1) == "entry", self.parameters(m.group(2)), self.parameters(m.group(4)))
                f.text = text[m.end() + 1:j - 1]
                self.functions.append(f)
                i = j
                continue
            if m:  # declared only
                i = m.end() + 1
                continue
            rest = text[i:].lstrip()
            i = len(text) - len(rest)
            if not rest:
                break
            if re.match(r"\.(version|target|address_size)\b", rest):
                i = text.index("\n", i)
                continue
            end = text.index(";", i)
            one = " ".join(text[i:end].split())
            if ".shared" not in one and one:
                self.data(one)
            i = end + 1

    def write(self):
        out = ['#include "ptx_run.h"']
        out += ["enum { AT_%s = %d };" % (name_of(s), at) for s, at in self.shared.items()]
        out += self.lines
        out += [f.signature() + ";" for f in self.functions]
        for f in self.functions:
            f.body(f.text)
            out += [f.signature(), "{"] + f.out + ["}"]
        entries = []
        for f in (f for f in self.functions if f.entry):
            at, places, sizes = 0, [], []
            for name, size, align in f.params:
                at = (at + align - 1) // align * align
                places.append(at)
                sizes.append(size)
                at += size
            out.append("static void E_%s(thread *t) { F_%s(%s); }" % (name_of(f.name), name_of(f.name), ", ".join(
                ["t"] + ["t->b->params + %d" % p for p in places])))
            out.append("static const int P_%s[] = {%s}, S_%s[] = {%s};" % (name_of(f.name), ", ".join(map(str, places)) or "0",
                                                                         name_of(f.name), ", ".join(map(str, sizes)) or "0"))
            entries.append('{"%s", E_%s, %d, P_%s, S_%s, %d}' % (f.name, name_of(f.name), len(f.params), name_of(f.name), name_of(f.name), at))
        out.append("const ptx_entry ptx_entries[] = {%s, {0}};" % ", ".join(entries))
        out.append("const int ptx_static_end = %d;" % self.static_end)
        return "\n".join(out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1]) as f:
        module = Module(f.read())
    with open(sys.argv[2], "w") as f:
        f.write(module.write())
