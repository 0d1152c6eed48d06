/* The inner loop of Avro: rows to columns and columns to rows.
 *
 * Compiled to WebAssembly (see build_wasm.py) and run in a sandbox by runtime.py: whatever a hostile file makes this code
 * do, it can touch only its own linear memory. Even so every read is checked, because a clear error beats a trap.
 *
 * A schema is compiled (program.py) to an array of nodes in preorder: the first child of a node follows it, and `next` is
 * the index of the node behind its subtree. Decoding appends to the buffers of each node in Arrow's layout; encoding reads
 * buffers of that layout. No libc: nothing but the functions below.
 */
typedef unsigned char u8;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

#define EXPORT(name) __attribute__((export_name(#name))) name
#define INLINE static inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* Keep in step with program.py. Below SKIP_VARINT values are materialised, from there on only stepped over. */
enum op {
    RECORD, LIST, BOOLEAN, INT, LONG, FIXED, BYTES, DECIMAL_FIXED, DECIMAL_BYTES, UUID_TEXT, ENUM,
    FIXED_BYTES, /* fixed with its length before it, as Iceberg's Java library has it in manifests */
    SKIP_VARINT, SKIP_FIXED, SKIP_BYTES, SKIP_RECORD, SKIP_LIST, SKIP_UNION
};

enum error {
    OK, TRUNCATED, BAD_VARINT, BAD_LENGTH, BAD_COUNT, BAD_UNION, OUT_OF_RANGE, BAD_BOOLEAN, TRAILING, NO_MEMORY, UNEXPECTED_NULL,
    BAD_TEXT
};

typedef struct {
    u32 op;
    u32 null_branch;     /* 0: not a union, 1: null is branch 0, 2: null is branch 1 */
    u32 arg;             /* fixed size, number of symbols, number of branches; of a LIST: 1 if only kept keys matter */
    u32 children;
    u32 next;
    u32 n, cap;          /* values so far, and how many the buffers can hold */
    u32 nulls;
    u8 *data;
    u8 *valid;
    i32 *offsets;
    u32 used, room;      /* bytes in data, for BYTES only */
    u32 base;            /* encoding: the first offset (LIST) or bit offset of data (BOOLEAN) */
    u32 valid_bit;       /* encoding: bit offset of the validity bitmap */
    u32 hint;            /* decoding: how many values to expect */
} node;

extern u8 __heap_base;
static node *nodes;
static u8 *top;              /* first free byte */
static const u8 *end;        /* decoding: end of the block */
static const i32 *kept;      /* decoding: the keys that matter, of the maps that say so */
static u32 kept_count;
static u8 *out_end;          /* encoding: end of the room for output */
static u32 failed_code, failed_node;

#define FAIL(code, at) do { failed_code = (code); failed_node = (u32)((at) - nodes); return 0; } while (0)

u32 EXPORT(error_code)(void) { return failed_code; }
u32 EXPORT(error_node)(void) { return failed_node; }

/* ---- memory: a bump allocator; a chunk of work ends with everything being forgotten ---- */

static int reach(u64 address) {
    u64 have = (u64)__builtin_wasm_memory_size(0) << 16;
    if (address <= have) return 1;
    if (address > 0xFFFF0000ull) return 0;
    u64 want = address - have, extra = have >> 2;        /* grow by a quarter at least: growing costs a call */
    if (extra > want && __builtin_wasm_memory_grow(0, (extra + 65535) >> 16) != (__SIZE_TYPE__)-1) return 1;
    return __builtin_wasm_memory_grow(0, (want + 65535) >> 16) != (__SIZE_TYPE__)-1;
}

u8 *EXPORT(allocate)(u32 size) {
    u64 after = ((u64)(u32)top + size + 31) & ~15ull;    /* 16 bytes of slack behind each buffer, for wide copies */
    if (!reach(after + 16)) return 0;
    u8 *p = top;
    top = (u8 *)(u32)after;
    return p;
}

/* Forget everything, and make room for `size` bytes that begin with the nodes. */
u8 *EXPORT(begin)(u32 size) {
    top = (u8 *)(((u32)&__heap_base + 15) & ~15u);
    failed_code = OK;
    failed_node = 0;
    kept_count = 0;
    nodes = (node *)allocate(size);
    return (u8 *)nodes;
}

void EXPORT(keep)(const i32 *keys, u32 count) {
    kept = keys;
    kept_count = count;
}

INLINE void copy(u8 *to, const u8 *from, u32 n) {
    if (n <= 64) {                                        /* both sides have 16 bytes of slack */
        for (u32 i = 0; i < n; i += 8) __builtin_memcpy(to + i, from + i, 8);
    } else {
        __builtin_memcpy(to, from, n);
    }
}

/* ---- decoding ---- */

INLINE u32 width(const node *t) {
    switch (t->op) {
    case INT: case ENUM: return 4;
    case LONG: return 8;
    case FIXED: case FIXED_BYTES: return t->arg;
    case DECIMAL_FIXED: case DECIMAL_BYTES: case UUID_TEXT: return 16;
    default: return 0;
    }
}

static void *moved(void *old, u64 used, u64 size) {
    if (size > 0xF0000000ull) return 0;
    u8 *p = allocate((u32)size);
    if (p && used) __builtin_memcpy(p, old, (u32)used);
    return p;
}

static __attribute__((noinline)) int grow(node *t) {
    u64 cap = t->cap ? (u64)t->cap * 2 : t->hint > 64 ? (t->hint + 7u) & ~7u : 64, n = t->n;
    if (t->null_branch && !(t->valid = moved(t->valid, (n + 7) / 8, cap / 8 + 1))) FAIL(NO_MEMORY, t);
    if (t->op == LIST || t->op == BYTES) {
        if (!(t->offsets = moved(t->offsets, n ? (n + 1) * 4 : 0, (cap + 1) * 4))) FAIL(NO_MEMORY, t);
        if (!n) t->offsets[0] = 0;
    } else if (t->op == BOOLEAN) {
        if (!(t->data = moved(t->data, (n + 7) / 8, cap / 8 + 1))) FAIL(NO_MEMORY, t);
    } else if (t->op != RECORD) {
        u64 w = width(t);
        if (!(t->data = moved(t->data, n * w, cap * w))) FAIL(NO_MEMORY, t);
    }
    t->cap = (u32)cap;
    return 1;
}

static __attribute__((noinline)) int grow_bytes(node *t, u32 more) {
    u64 room = (u64)t->room * 2 + more + 256;
    if ((u64)t->used + more > 0x7FFFFFF0ull || !(t->data = moved(t->data, t->used, room))) FAIL(NO_MEMORY, t);
    t->room = (u32)room;
    return 1;
}

INLINE void put_bit(u8 *bits, u32 i, u32 bit) {          /* bits are appended, so what is above i is still garbage */
    u32 shift = i & 7;
    bits[i >> 3] = (u8)((bits[i >> 3] & ((1u << shift) - 1)) | (bit << shift));
}

static __attribute__((noinline)) const u8 *long_varint(const node *t, const u8 *p, u64 *value) {
    u64 v = 0;
    for (u32 shift = 0; shift < 70; shift += 7) {
        if (p >= end) FAIL(TRUNCATED, t);
        u8 byte = *p++;
        if (shift == 63 && byte > 1) FAIL(BAD_VARINT, t);
        v |= (u64)(byte & 127) << shift;
        if (byte < 128) {
            *value = v;
            return p;
        }
    }
    FAIL(BAD_VARINT, t);
}

#define STOPS 0x8080808080808080ull
#define UNZIGZAG(v) ((i64)((v) >> 1) ^ -(i64)((v) & 1))

/* The value of a varint that lies in a word, without a branch on its length; `stops` has the top bits of last bytes. */
INLINE u64 squeeze(u64 v, u64 stops) {
    v &= (stops ^ (stops - 1)) & 0x7F7F7F7F7F7F7F7Full;
    v = (v & 0x007F007F007F007Full) | (v & 0x7F007F007F007F00ull) >> 1;
    v = (v & 0x00003FFF00003FFFull) | (v & 0x3FFF00003FFF0000ull) >> 2;
    return (v & 0x000000000FFFFFFFull) | (v & 0x0FFFFFFF00000000ull) >> 4;
}

INLINE const u8 *varint(const node *t, const u8 *p, const u8 *block_end, i64 *value) {
    u64 v;
    if (likely(block_end - p >= 8)) {
        __builtin_memcpy(&v, p, 8);
        u64 stops = ~v & STOPS;
        if (stops & 0x80) {
            v &= 127;
            p += 1;
        } else if (likely(stops != 0)) {                  /* 2 to 8 bytes */
            p += (__builtin_ctzll(stops) >> 3) + 1;
            v = squeeze(v, stops);
        } else if (!(p = long_varint(t, p, &v))) return 0;
    } else if (!(p = long_varint(t, p, &v))) return 0;
    *value = UNZIGZAG(v);
    return p;
}

/* Two varints of which the first is short, as a column's id is: one load for both. */
INLINE const u8 *two_varints(const node *s, const node *t, const u8 *p, const u8 *block_end, i64 *first, i64 *second) {
    if (likely(block_end - p >= 8)) {
        u64 v;
        __builtin_memcpy(&v, p, 8);
        u64 key = v & 127, rest = v >> 8, stops = ~rest & (STOPS >> 8);
        if (likely(!(v & 128) && stops)) {
            rest = squeeze(rest, stops);
            *first = UNZIGZAG(key);
            *second = UNZIGZAG(rest);
            return p + (__builtin_ctzll(stops) >> 3) + 2;
        }
    }
    return (p = varint(s, p, block_end, first)) ? varint(t, p, block_end, second) : 0;
}

INLINE const u8 *length(const node *t, const u8 *p, u32 *size) {
    i64 v;
    if (!(p = varint(t, p, end, &v))) return 0;
    if (v < 0) FAIL(BAD_LENGTH, t);
    if (v > end - p) FAIL(TRUNCATED, t);
    *size = (u32)v;
    return p;
}

/* The head of one block of an array or map; *limit is where the block must end if it told its size, else 0. */
static const u8 *block_head(const node *t, const u8 *p, u32 *count, const u8 **limit) {
    i64 v, size;
    *limit = 0;
    if (!(p = varint(t, p, end, &v))) return 0;
    if (v < 0) {
        if (!(p = varint(t, p, end, &size))) return 0;
        if (size < 0 || size > end - p) FAIL(BAD_LENGTH, t);
        *limit = p + size;
        v = (i64)(0 - (u64)v);
    }
    if (v < 0 || v > end - p) FAIL(BAD_COUNT, t);        /* every item takes a byte at least: schema.py sees to it */
    *count = (u32)v;
    return p;
}

INLINE const u8 *skip_varint(const node *t, const u8 *p) {
    u64 v;
    if (likely(end - p >= 8)) {
        __builtin_memcpy(&v, p, 8);
        v = ~v & STOPS;
        if (likely(v != 0)) return p + (__builtin_ctzll(v) >> 3) + 1;
    }
    return long_varint(t, p, &v);
}

/* Step over many varints by counting last bytes, a word at a time. */
static const u8 *skip_varints(const node *t, const u8 *p, u32 count) {
    while (count >= 8 && end - p >= 8) {
        u64 v;
        __builtin_memcpy(&v, p, 8);
        count -= (u32)__builtin_popcountll(~v & STOPS);
        p += 8;
    }
    /* The last word may have ended inside a number: going on from there ends at the same last byte. */
    while (count--)
        if (!(p = skip_varint(t, p))) return 0;
    return p;
}

INLINE const u8 *skip_leaf(const node *t, const u8 *p) {
    u32 size = t->arg;
    if (t->op == SKIP_VARINT) return skip_varint(t, p);
    if (t->op == SKIP_BYTES) return (p = length(t, p, &size)) ? p + size : 0;
    if ((i64)size > end - p) FAIL(TRUNCATED, t);
    return p + size;
}

static const u8 *skip(const node *t, const u8 *p) {
    i64 v;
    u32 size;
    switch (t->op) {
    case SKIP_VARINT:
    case SKIP_FIXED:
    case SKIP_BYTES: return skip_leaf(t, p);
    case SKIP_RECORD: {
        const node *c = t + 1;
        for (u32 i = 0; i < t->children; i++, c = nodes + c->next)
            if (!(p = skip(c, p))) return 0;
        return p;
    }
    case SKIP_LIST:
        for (;;) {
            const u8 *limit;
            if (!(p = block_head(t, p, &size, &limit))) return 0;
            if (limit) {
                p = limit;
                continue;
            }
            if (!size) return p;
            if (t[1].op == SKIP_RECORD && t[1].children == 2 && t[2].op == SKIP_VARINT && t[3].op < SKIP_FIXED) {
                if (!(p = skip_varints(t, p, 2 * size))) return 0;
            } else if (t[1].op == SKIP_RECORD && t[1].children == 2 && t[2].op == SKIP_VARINT && t[3].op == SKIP_BYTES) {
                while (size--) {
                    i64 key;
                    if (!(p = two_varints(t + 2, t + 3, p, end, &key, &v))) return 0;
                    if (v < 0 || v > end - p) FAIL(v < 0 ? BAD_LENGTH : TRUNCATED, t);
                    p += v;
                }
            } else {
                while (size--)
                    if (!(p = skip(t + 1, p))) return 0;
            }
        }
    default: {                                            /* SKIP_UNION: branches without bytes have no children */
        if (!(p = varint(t, p, end, &v))) return 0;
        if (v < 0 || v >= t->arg) FAIL(BAD_UNION, t);
        const node *c = t + 1;
        while (v--) c = nodes + c->next;
        return skip(c, p);
    }
    }
}

static int append_null(node *t) {
    if (t->op >= SKIP_VARINT) return 1;
    if (t->op == RECORD) {
        node *c = t + 1;
        for (u32 i = 0; i < t->children; i++, c = nodes + c->next)
            if (!append_null(c)) return 0;
        if (!t->null_branch) return 1;
    }
    if (t->n == t->cap && !grow(t)) return 0;
    u32 n = t->n, w = width(t);
    if (t->null_branch) {
        put_bit(t->valid, n, 0);
        t->nulls++;
    }
    if (t->op == LIST || t->op == BYTES) t->offsets[n + 1] = t->offsets[n];
    else if (t->op == BOOLEAN) put_bit(t->data, n, 0);
    else if (w) __builtin_memset(t->data + (u64)n * w, 0, w);
    t->n = n + 1;
    return 1;
}

/* `size` big-endian two's complement bytes to 16 little-endian ones; 0 if the value needs more than 16. */
static int decimal_in(const u8 *p, u32 size, u8 *to) {
    u8 sign = size && (p[0] & 128) ? 255 : 0;
    while (size > 16) {
        if (*p != sign) return 0;
        p++, size--;
    }
    if (size == 16 && (p[0] & 128) != (sign & 128)) return 0;
    for (u32 i = 0; i < 16; i++) to[i] = i < size ? p[size - 1 - i] : sign;
    return 1;
}

static int hex(u8 c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int uuid_in(const u8 *p, u32 size, u8 *to) {
    if (size != 36) return 0;
    for (u32 i = 0, k = 0; i < 36; i += 2) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (p[i++] != '-') return 0;
        }
        int high = hex(p[i]), low = hex(p[i + 1]);
        if (high < 0 || low < 0) return 0;
        to[k++] = (u8)(high << 4 | low);
    }
    return 1;
}

INLINE const u8 *bytes_value(node *t, u32 n, const u8 *p) {
    u32 size;
    if (!(p = length(t, p, &size))) return 0;
    if (unlikely(t->room - t->used < size) && !grow_bytes(t, size)) return 0;
    copy(t->data + t->used, p, size);
    t->used += size;
    t->offsets[n + 1] = (i32)t->used;
    return p + size;
}

INLINE const u8 *int_value(node *t, u32 n, const u8 *p) {
    i64 v;
    if (!(p = varint(t, p, end, &v))) return 0;
    if (unlikely(v != (i32)v)) FAIL(OUT_OF_RANGE, t);
    ((i32 *)t->data)[n] = (i32)v;
    return p;
}

INLINE const u8 *long_value(node *t, u32 n, const u8 *p) {
    i64 v;
    if (!(p = varint(t, p, end, &v))) return 0;
    ((i64 *)t->data)[n] = v;
    return p;
}

/* Metrics are maps from int to long or bytes, and they are most of a manifest: `count` entries in a tight loop. What the
 * stores in it cannot change is kept in locals, or the compiler would load it again after each. */
static const u8 *metrics(node *key, node *val, u32 count, const u8 *p) {
    while (key->cap - key->n < count) if (!grow(key)) return 0;
    while (val->cap - val->n < count) if (!grow(val)) return 0;
    i32 *keys = (i32 *)key->data + key->n, *stop = keys + count;
    const u8 *const block_end = end;
    i64 k, v;
    if (val->op == LONG) {
        i64 *values = (i64 *)val->data + val->n;
        while (keys < stop) {
            if (!(p = two_varints(key, val, p, block_end, &k, &v))) return 0;
            if (unlikely(k != (i32)k)) FAIL(OUT_OF_RANGE, key);
            *keys++ = (i32)k;
            *values++ = v;
        }
    } else {
        i32 *offsets = val->offsets + val->n;
        u8 *data = val->data;
        u32 used = val->used, room = val->room;
        while (keys < stop) {
            if (!(p = two_varints(key, val, p, block_end, &k, &v))) return 0;
            if (unlikely(k != (i32)k)) FAIL(OUT_OF_RANGE, key);
            if (unlikely(v < 0 || v > block_end - p)) FAIL(v < 0 ? BAD_LENGTH : TRUNCATED, val);
            if (unlikely(room - used < (u32)v)) {
                val->used = used;
                if (!grow_bytes(val, (u32)v)) return 0;
                data = val->data, room = val->room;
            }
            copy(data + used, p, (u32)v);
            p += v;
            used += (u32)v;
            *keys++ = (i32)k;
            *++offsets = (i32)used;
        }
        val->used = used;
    }
    key->n += count;
    val->n += count;
    return p;
}

/* As above, of the keys that are kept: a filter looks at few columns, and the rest need not leave the sandbox. */
static const u8 *kept_metrics(node *key, node *val, u32 count, const u8 *p) {
    const u8 *const block_end = end;
    i64 k, v;
    while (count--) {
        if (!(p = two_varints(key, val, p, block_end, &k, &v))) return 0;
        if (unlikely(k != (i32)k)) FAIL(OUT_OF_RANGE, key);
        if (val->op == BYTES && unlikely(v < 0 || v > block_end - p)) FAIL(v < 0 ? BAD_LENGTH : TRUNCATED, val);
        u32 i = 0;
        while (i < kept_count && kept[i] != (i32)k) i++;
        if (i < kept_count) {
            if (unlikely(key->n == key->cap) && !grow(key)) return 0;
            if (unlikely(val->n == val->cap) && !grow(val)) return 0;
            ((i32 *)key->data)[key->n++] = (i32)k;
            if (val->op == BYTES) {
                if (unlikely(val->room - val->used < (u32)v) && !grow_bytes(val, (u32)v)) return 0;
                copy(val->data + val->used, p, (u32)v);
                val->used += (u32)v;
                val->offsets[++val->n] = (i32)val->used;
            } else {
                ((i64 *)val->data)[val->n++] = v;
            }
        }
        if (val->op == BYTES) p += v;
    }
    return p;
}

INLINE int is_metrics(const node *entry) {
    return entry->op == RECORD && !entry->null_branch && entry->children == 2 && entry[1].op == INT && !entry[1].null_branch
        && (entry[2].op == LONG || entry[2].op == BYTES) && !entry[2].null_branch;
}

static const u8 *value(node *t, const u8 *p) {
    i64 v;
    u32 size;
    if (t->op >= SKIP_VARINT) return skip(t, p);
    if (t->null_branch) {
        if (p >= end) FAIL(TRUNCATED, t);
        u32 index = *p++;                                 /* 0 and 2 are the branches 0 and 1, zigzag */
        if (unlikely(index & ~2u)) {
            if (!(p = varint(t, p - 1, end, &v))) return 0;    /* a padded varint, or nonsense */
            if (v < 0 || v > 1) FAIL(BAD_UNION, t);
            index = (u32)v << 1;
        }
        if ((index >> 1) + 1 == t->null_branch) return append_null(t) ? p : 0;
        if (t->op == RECORD) {
            if (t->n == t->cap && !grow(t)) return 0;
            put_bit(t->valid, t->n++, 1);
        }
    }
    if (t->op == RECORD) {
        node *c = t + 1;
        for (u32 i = 0; i < t->children; i++, c = nodes + c->next)
            if (!(p = value(c, p))) return 0;
        return p;
    }
    if (unlikely(t->n == t->cap) && !grow(t)) return 0;
    u32 n = t->n;
    if (t->null_branch) put_bit(t->valid, n, 1);
    switch (t->op) {
    case INT:
        if (!(p = int_value(t, n, p))) return 0;
        break;
    case ENUM:
        if (!(p = int_value(t, n, p))) return 0;
        if (((u32 *)t->data)[n] >= t->arg) FAIL(OUT_OF_RANGE, t);
        break;
    case LONG:
        if (!(p = long_value(t, n, p))) return 0;
        break;
    case BYTES:
        if (!(p = bytes_value(t, n, p))) return 0;
        break;
    case FIXED_BYTES:
        if (!(p = length(t, p, &size))) return 0;
        if (size != t->arg) FAIL(BAD_LENGTH, t);
        /* fall through */
    case FIXED:
        if ((i64)t->arg > end - p) FAIL(TRUNCATED, t);
        if (t->arg == 8) __builtin_memcpy(t->data + n * 8, p, 8);
        else if (t->arg == 4) __builtin_memcpy(t->data + n * 4, p, 4);
        else __builtin_memcpy(t->data + (u64)n * t->arg, p, t->arg);
        p += t->arg;
        break;
    case BOOLEAN:
        if (p >= end) FAIL(TRUNCATED, t);
        if (*p > 1) FAIL(BAD_BOOLEAN, t);
        put_bit(t->data, n, *p++);
        break;
    case DECIMAL_FIXED:
        if ((i64)t->arg > end - p) FAIL(TRUNCATED, t);
        if (!decimal_in(p, t->arg, t->data + n * 16)) FAIL(OUT_OF_RANGE, t);
        p += t->arg;
        break;
    case DECIMAL_BYTES:
        if (!(p = length(t, p, &size))) return 0;
        if (!decimal_in(p, size, t->data + n * 16)) FAIL(OUT_OF_RANGE, t);
        p += size;
        break;
    case UUID_TEXT:
        if (!(p = length(t, p, &size))) return 0;
        if (!uuid_in(p, size, t->data + n * 16)) FAIL(BAD_TEXT, t);
        p += size;
        break;
    default: {                                            /* LIST: of an array, or of the entries of a map */
        node *item = t + 1;
        u32 total = (u32)t->offsets[n];
        for (;;) {
            const u8 *limit;
            if (!(p = block_head(t, p, &size, &limit))) return 0;
            if (!size && !limit) break;
            if (t->arg && is_metrics(item)) {
                if (!(p = kept_metrics(item + 1, item + 2, size, p))) return 0;
                total = item[1].n;
                if (limit && p != limit) FAIL(BAD_LENGTH, t);
                continue;
            }
            total += size;
            if (is_metrics(item)) {
                if (!(p = metrics(item + 1, item + 2, size, p))) return 0;
            } else {
                while (size--)
                    if (!(p = value(item, p))) return 0;
            }
            if (limit && p != limit) FAIL(BAD_LENGTH, t);
        }
        if (total > 0x7FFFFFFFu) FAIL(NO_MEMORY, t);
        t->offsets[n + 1] = (i32)total;
    }
    }
    t->n = n + 1;
    return p;
}

/* Decode `blocks` payloads that lie one after the other; `table` has (length, row count) of each. Rows decoded, or -1. */
i32 EXPORT(decode)(const u8 *payload, const u32 *table, u32 blocks) {
    u32 rows = 0;
    for (u32 b = 0; b < blocks; b++) {
        const u8 *p = payload;
        end = payload += table[2 * b];
        for (u32 i = table[2 * b + 1]; i; i--)
            if (!(p = value(nodes, p))) return -1;
        if (p != end) {
            failed_code = TRAILING;
            return -1;
        }
        rows += table[2 * b + 1];
    }
    return (i32)rows;
}

/* ---- encoding ---- */

static __attribute__((noinline)) int more_room(u8 *q, u32 need) {
    if (!reach((u64)(u32)q + need + 64)) return 0;
    out_end = (u8 *)(u32)(((u64)__builtin_wasm_memory_size(0) << 16) - 64);   /* output is the last thing in memory */
    return 1;
}

#define ROOM(need, at) do { if (unlikely((u64)(u32)q + (need) > (u32)out_end) && !more_room(q, need)) FAIL(NO_MEMORY, at); } while (0)

INLINE u8 *put_varint(u8 *q, i64 value) {
    u64 v = (u64)value << 1 ^ (u64)(value >> 63);
    while (v > 127) {
        *q++ = (u8)(v | 128);
        v >>= 7;
    }
    *q++ = (u8)v;
    return q;
}

INLINE u32 get_bit(const u8 *bits, u32 i) { return bits[i >> 3] >> (i & 7) & 1; }

/* The entries of metrics, as above: from int to long or bytes, none of them null. */
static u8 *put_metrics(const node *key, const node *val, u32 from, u32 to, u8 *q) {
    const i32 *keys = (const i32 *)key->data;
    if (val->op == LONG) {
        const i64 *values = (const i64 *)val->data;
        for (; from < to; from++) {
            ROOM(32, val);
            q = put_varint(q, keys[from]);
            q = put_varint(q, values[from]);
        }
        return q;
    }
    for (; from < to; from++) {
        u32 at = (u32)val->offsets[from], size = (u32)val->offsets[from + 1] - at;
        ROOM(size + 32, val);
        q = put_varint(q, keys[from]);
        q = put_varint(q, size);
        copy(q, val->data + (at - val->base), size);
        q += size;
    }
    return q;
}

static u8 *put(const node *t, u32 i, u8 *q) {
    ROOM(32, t);
    int present = !t->valid || get_bit(t->valid, t->valid_bit + i);
    if (t->null_branch) {
        *q++ = (t->null_branch == 1) == present ? 2 : 0;
        if (!present) return q;
    } else if (unlikely(!present)) {
        FAIL(UNEXPECTED_NULL, t);
    }
    switch (t->op) {
    case RECORD: {
        const node *c = t + 1;
        for (u32 k = 0; k < t->children; k++, c = nodes + c->next)
            if (!(q = put(c, i, q))) return 0;
        return q;
    }
    case LIST: {
        u32 from = (u32)t->offsets[i] - t->base, to = (u32)t->offsets[i + 1] - t->base;
        if (from < to) {
            q = put_varint(q, to - from);
            if (is_metrics(t + 1) && !t[1].valid && !t[2].valid && !t[3].valid) {
                if (!(q = put_metrics(t + 2, t + 3, from, to, q))) return 0;
            } else {
                for (; from < to; from++)
                    if (!(q = put(t + 1, from, q))) return 0;
            }
            ROOM(1, t);
        }
        *q++ = 0;
        return q;
    }
    case BOOLEAN:
        *q++ = (u8)get_bit(t->data, t->base + i);
        return q;
    case INT:
    case ENUM: return put_varint(q, ((const i32 *)t->data)[i]);
    case LONG: return put_varint(q, ((const i64 *)t->data)[i]);
    case FIXED_BYTES:
        q = put_varint(q, t->arg);
        /* fall through */
    case FIXED:
        ROOM(t->arg + 8, t);
        if (t->arg == 8) __builtin_memcpy(q, t->data + i * 8, 8);
        else __builtin_memcpy(q, t->data + (u64)i * t->arg, t->arg);
        return q + t->arg;
    case BYTES: {
        u32 size = (u32)(t->offsets[i + 1] - t->offsets[i]);
        ROOM(size + 32, t);
        q = put_varint(q, size);
        copy(q, t->data + ((u32)t->offsets[i] - t->base), size);
        return q + size;
    }
    case DECIMAL_FIXED:
    case DECIMAL_BYTES: {
        const u8 *d = t->data + i * 16;
        u8 sign = d[15] & 128 ? 255 : 0;
        u32 size = 16;                                    /* the fewest bytes that keep the sign */
        while (size > 1 && d[size - 1] == sign && (d[size - 2] & 128) == (sign & 128)) size--;
        if (t->op == DECIMAL_BYTES) {
            q = put_varint(q, size);
        } else {
            if (size > t->arg) FAIL(OUT_OF_RANGE, t);
            ROOM(t->arg + 32, t);
            for (u32 k = size; k < t->arg; k++) *q++ = sign;
        }
        while (size) *q++ = d[--size];
        return q;
    }
    default: {                                            /* UUID_TEXT */
        const u8 *d = t->data + i * 16;
        ROOM(64, t);
        *q++ = 72;
        for (u32 k = 0; k < 16; k++) {
            if (k == 4 || k == 6 || k == 8 || k == 10) *q++ = '-';
            *q++ = (u8)"0123456789abcdef"[d[k] >> 4];
            *q++ = (u8)"0123456789abcdef"[d[k] & 15];
        }
        return q;
    }
    }
}

u8 *EXPORT(out)(void) { return top; }

/* Encode rows from `row` up to `rows` to out(), until `target` bytes are there. The number of rows that went in, times
 * 2^32, plus the number of bytes; or -1. */
i64 EXPORT(encode)(u32 row, u32 rows, u32 target) {
    u8 *q = top;
    u32 i = row;
    if (!more_room(q, target)) {
        failed_code = NO_MEMORY;
        return -1;
    }
    while (i < rows && (u32)(q - top) < target)
        if (!(q = put(nodes, i++, q))) return -1;
    return (i64)(i - row) << 32 | (u32)(q - top);
}
