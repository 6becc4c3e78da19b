#include "preload/symbols.h"

#include <elf.h>
#include <stddef.h>

extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));

EARLY bool symbols_same(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

EARLY uint32_t symbols_hash(const char *name)
{
	uint32_t h = 5381;
	for (; *name; name++)
		h = h * 33 + (uint8_t)*name;
	return h;
}

EARLY void symbols_of(const struct link_map *m, struct symbols *ret)
{
	*ret = (struct symbols){.object = m->l_name ? m->l_name : "", .base = m->l_addr};
	for (const ElfW(Dyn) *d = m->l_ld; d && d->d_tag != DT_NULL; d++) {
		/* glibc relocates the pointers where the section is writable, and leaves the vdso's */
		uintptr_t at = d->d_un.d_ptr < ret->base ? d->d_un.d_ptr + ret->base : d->d_un.d_ptr;
		switch (d->d_tag) {
		case DT_SYMTAB: ret->symbol = (const void *)at; break;
		case DT_STRTAB: ret->string = (const char *)at; break;
		case DT_GNU_HASH: ret->gnu_hash = (const void *)at; break;
		case DT_HASH: ret->sysv_hash = (const void *)at; break;
		case DT_VERSYM: ret->version = (const void *)at; break;
		}
	}
	if (!ret->symbol || !ret->string)
		ret->gnu_hash = ret->sysv_hash = NULL;
}

EARLY static void *defined(const struct symbols *in, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &in->symbol[i];
	if (s->st_shndx == SHN_UNDEF || !s->st_value || (in->version && in->version[i] & 0x8000) ||
	    !symbols_same(in->string + s->st_name, name))
		return NULL; /* 0x8000: not the default version */
	unsigned type = s->st_info & 15;
	if (type == STT_GNU_IFUNC)
		return SYMBOL_BY_RESOLVER;
	return type == STT_FUNC || type == STT_NOTYPE ? (void *)(in->base + s->st_value) : NULL;
}

EARLY static void *find_gnu(const struct symbols *in, const char *name, uint32_t hash)
{
	const uint32_t *t = in->gnu_hash;
	uint32_t buckets = t[0], first = t[1], words = t[2], shift = t[3], bits = 8 * sizeof(ElfW(Addr));
	const ElfW(Addr) *bloom = (const void *)(t + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + words), *chain = bucket + buckets;
	ElfW(Addr) word = bloom[hash / bits & (words - 1)];
	if (!buckets || !(word >> hash % bits & word >> (hash >> shift) % bits & 1))
		return NULL;
	uint32_t i = bucket[hash % buckets];
	if (i < first)
		return NULL;
	for (;; i++) {
		uint32_t h = chain[i - first];
		if ((h | 1) == (hash | 1)) {
			void *found = defined(in, i, name);
			if (found)
				return found;
		}
		if (h & 1)
			return NULL;
	}
}

EARLY void *symbols_find(const struct symbols *in, const char *name, uint32_t hash)
{
	if (in->gnu_hash)
		return find_gnu(in, name, hash);
	for (uint32_t i = 1; in->sysv_hash && i < in->sysv_hash[1]; i++) {
		void *found = defined(in, i, name);
		if (found)
			return found;
	}
	return NULL;
}

EARLY const struct link_map *symbols_self(void)
{
	const struct link_map *m = _r_debug.r_map;
	while (m && m->l_ld != _DYNAMIC)
		m = m->l_next;
	return m;
}

EARLY bool symbols_is_libc(const struct symbols *in)
{
	const char *name = in->object;
	for (const char *p = name; *p; p++)
		if (*p == '/')
			name = p + 1;
	return symbols_same(name, "libc.so.6") || symbols_same(name, "libpthread.so.0") || symbols_same(name, "libdl.so.2");
}
