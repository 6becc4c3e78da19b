/* dlsym, dlvsym and dlopen. What a program takes out of libc by hand (ctypes, JNA, a plug-in) must be ours as what
 * it imports is; and RTLD_DEEPBIND would put libc before us.
 *
 * The entries are in assembly: they ask a C function and then jump, so that the real call finds its caller's return
 * address in place. RTLD_NEXT, RTLD_DEFAULT and RUNPATH mean something else for every caller. */
#include "preload/interpose.h"
#include "preload/real.h"
#include "preload/symbols.h"

#include <dlfcn.h>
#include <stddef.h>

/* Returned in two registers: the caller's answer, or NULL and where to jump. */
struct answer {
	void *value;
	void *go_on;
};

struct answer dl_answer(void *handle, const char *name) __attribute__((visibility("hidden")));
struct answer dl_answer_version(void *handle, const char *name, const char *version) __attribute__((visibility("hidden")));
void *dl_open(void) __attribute__((visibility("hidden")));

/* glibc before 2.34 with a program that was started without libdl. */
static void *no_libdl(void)
{
	return NULL;
}

EARLY static void *bound(void *const *entry)
{
	if (!real_bound || !*entry)
		real_bind();
	return *entry ? *entry : (void *)no_libdl;
}

/* Is found libc's own definition (its default version) of a call that we export? Then ours. */
EARLY static void *ours_for(const char *name, void *found)
{
	const struct link_map *m = symbols_self();
	struct symbols in;
	uint32_t hash = symbols_hash(name);
	if (!m)
		return NULL;
	symbols_of(m, &in);
	void *own = symbols_find(&in, name, hash);
	while (own && (m = m->l_next)) {
		symbols_of(m, &in);
		if (symbols_is_libc(&in) && symbols_find(&in, name, hash) == found)
			return own;
	}
	return NULL;
}

EARLY static bool exported(const char *name)
{
	const struct link_map *m = symbols_self();
	struct symbols in;
	if (!m || !name)
		return false;
	symbols_of(m, &in);
	return symbols_find(&in, name, symbols_hash(name)) != NULL;
}

EARLY struct answer dl_answer(void *handle, const char *name)
{
	void *(*next)(void *, const char *) = bound((void **)&real.dlsym);
	struct answer a = {NULL, next};
	/* the scope of these begins before or behind us as it should */
	if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !exported(name))
		return a;
	void *found = next(handle, name);
	if (found)
		a.value = ours_for(name, found);
	return a; /* without a value the call is made again, in the caller's name: its dlerror */
}

EARLY struct answer dl_answer_version(void *handle, const char *name, const char *version)
{
	void *(*next)(void *, const char *, const char *) = bound((void **)&real.dlvsym);
	struct answer a = {NULL, next};
	if (handle == RTLD_NEXT || !exported(name))
		return a;
	/* our calls carry no version, so the global scope finds libc's behind us */
	void *found = next(handle, name, version);
	if (found)
		a.value = ours_for(name, found);
	return a;
}

EARLY void *dl_open(void)
{
	return bound((void **)&real.dlopen);
}

_Static_assert(RTLD_DEEPBIND == 8, "in the assembly below");

#if defined(__x86_64__)
#define ENTRY(name, ask) \
	".globl " #name "\n.type " #name ",@function\n" #name ":\n" \
	"	.cfi_startproc\n" \
	"	endbr64\n" \
	"	pushq %rdi\n	.cfi_adjust_cfa_offset 8\n" \
	"	pushq %rsi\n	.cfi_adjust_cfa_offset 8\n" \
	"	pushq %rdx\n	.cfi_adjust_cfa_offset 8\n" \
	"	call " #ask "\n" \
	"	movq %rdx, %r11\n" \
	"	popq %rdx\n	.cfi_adjust_cfa_offset -8\n" \
	"	popq %rsi\n	.cfi_adjust_cfa_offset -8\n" \
	"	popq %rdi\n	.cfi_adjust_cfa_offset -8\n"
#define LEAVE(name) \
	"	.cfi_endproc\n.size " #name ",.-" #name "\n"
__asm__(".text\n"
	ENTRY(dlsym, dl_answer)
	"	testq %rax, %rax\n"
	"	jne 1f\n"
	"	jmp *%r11\n"
	"1:	ret\n"
	LEAVE(dlsym)
	ENTRY(dlvsym, dl_answer_version)
	"	testq %rax, %rax\n"
	"	jne 1f\n"
	"	jmp *%r11\n"
	"1:	ret\n"
	LEAVE(dlvsym)
	ENTRY(dlopen, dl_open)
	"	andl $~8, %esi\n"
	"	jmp *%rax\n"
	LEAVE(dlopen));
#elif defined(__aarch64__)
/* hint #34 is bti c; x16 may be jumped through */
#define ENTRY(name, ask) \
	".globl " #name "\n.type " #name ",%function\n" #name ":\n" \
	"	.cfi_startproc\n" \
	"	hint #34\n" \
	"	stp x29, x30, [sp, #-48]!\n" \
	"	.cfi_def_cfa_offset 48\n	.cfi_offset 29, -48\n	.cfi_offset 30, -40\n" \
	"	mov x29, sp\n" \
	"	stp x0, x1, [sp, #16]\n" \
	"	str x2, [sp, #32]\n" \
	"	bl " #ask "\n" \
	"	mov x17, x0\n" \
	"	mov x16, x1\n" \
	"	ldp x0, x1, [sp, #16]\n" \
	"	ldr x2, [sp, #32]\n" \
	"	ldp x29, x30, [sp], #48\n" \
	"	.cfi_restore 29\n	.cfi_restore 30\n	.cfi_def_cfa_offset 0\n"
#define LEAVE(name) \
	"	.cfi_endproc\n.size " #name ",.-" #name "\n"
__asm__(".text\n"
	ENTRY(dlsym, dl_answer)
	"	cbnz x17, 1f\n"
	"	br x16\n"
	"1:	mov x0, x17\n"
	"	ret\n"
	LEAVE(dlsym)
	ENTRY(dlvsym, dl_answer_version)
	"	cbnz x17, 1f\n"
	"	br x16\n"
	"1:	mov x0, x17\n"
	"	ret\n"
	LEAVE(dlvsym)
	ENTRY(dlopen, dl_open)
	"	and w1, w1, #0xfffffff7\n"
	"	br x17\n"
	LEAVE(dlopen));
#else
#error "no entry of dlsym for this processor"
#endif
