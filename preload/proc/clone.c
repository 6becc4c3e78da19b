/* clone and vfork.
 *
 * Without CLONE_VM clone is a fork. To libc its child is the thread that called (the thread id in its memory is the
 * parent's, and the kernel has no list of its robust locks), so nobody could tell its death from its life lock. What
 * it inherits goes on. It is a holder until it closes, executes or exits; one that was killed until its maker,
 * which alone knows its pid for sure, has waited for it.
 *
 * With CLONE_VM and CLONE_VFORK it is a vfork: the child runs in our memory while this thread waits, so the
 * thread's flag tells its calls to write no table.
 *
 * Where only one of memory and descriptors is shared otherwise, one table cannot speak for both: everything goes
 * back to the kernel for good. */
#include "preload/interpose.h"
#include "preload/proc/process.h"
#include "preload/real.h"
#include "preload/state.h"
#include "preload/switch.h"

#include <linux/sched.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/syscall.h>

struct start {
	int (*fn)(void *);
	void *arg;
	int index;
};

static int begin(void *p)
{
	struct start s = *(struct start *)p;
	fork_child(s.index);
	_exit(s.fn(s.arg)); /* ours: what it held is given back */
}

static void share_half(uint64_t flags)
{
	if (!(flags & CLONE_VM) == !(flags & CLONE_FILES))
		return;
	switch_leave_all(REASON_HOLDERS);
	inactive_reason = REASON_HOLDERS;
	active = false;
}

EXPORT int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	ENSURE_REAL();
	va_list ap;
	va_start(ap, arg);
	pid_t *parent = va_arg(ap, pid_t *);
	void *tls = va_arg(ap, void *);
	pid_t *child = va_arg(ap, pid_t *);
	va_end(ap);
	int r;
	if (self_thread.vfork_child || flags & CLONE_THREAD || !fn)
		return real.clone(fn, stack, flags, arg, parent, tls, child);
	if (flags & CLONE_VM && flags & CLONE_VFORK) {
		self_thread.vfork_child++;
		r = real.clone(fn, stack, flags, arg, parent, tls, child);
		self_thread.vfork_child--;
		return r;
	}
	share_half(flags);
	if (flags & CLONE_VM)
		return real.clone(fn, stack, flags, arg, parent, tls, child);
	struct start s = {fn, arg, fork_prepare(false)};
	r = real.clone(begin, stack, flags, &s, parent, tls, child);
	fork_parent(s.index, r);
	return r;
}

long clone_by_number(long number, const long *a)
{
	uint64_t flags = number == SYS_clone ? (uint64_t)a[0] : 0;
	bool own_stack = number == SYS_clone && a[1];
#ifdef SYS_clone3
	const struct clone_args *args = (const void *)a[0];
	if (number == SYS_clone3 && args && (size_t)a[1] >= CLONE_ARGS_SIZE_VER0) {
		flags = args->flags;
		own_stack = args->stack;
	}
#endif
	/* with memory in common or another stack it does not come back here: its caller is assembly of its own */
	if (self_thread.vfork_child || flags & CLONE_VM || own_stack)
		return real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	share_half(flags);
	int index = fork_prepare(false);
	long r = real.syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (r == 0)
		fork_child(index);
	else
		fork_parent(index, r);
	return r;
}

/* vfork returns twice on one stack. The flag is the first word of the thread's state; it counts, as the child of a
 * vfork may vfork. */
_Static_assert(offsetof(struct thread_state, vfork_child) == 0, "in the assembly below");
#if defined(__x86_64__)
/* The return address waits in a register that the kernel leaves alone: the child overwrites the stack. */
__asm__(".text\n.globl vfork\n.type vfork,@function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	movq self_thread@gottpoff(%rip), %rcx\n"
	"	addl $1, %fs:(%rcx)\n"
	"	popq %rdx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	.cfi_register %rip, %rdx\n"
	"	movl $58, %eax\n"
	"	syscall\n"
	"	pushq %rdx\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	.cfi_rel_offset %rip, 0\n"
	"	testq %rax, %rax\n"
	"	je 1f\n"
	"	movq self_thread@gottpoff(%rip), %rcx\n"
	"	subl $1, %fs:(%rcx)\n"
	"	cmpq $-4095, %rax\n"
	"	jae 2f\n"
	"1:	ret\n"
	"2:	negl %eax\n"
	"	pushq %rax\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	call __errno_location@PLT\n"
	"	popq %rcx\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	movl %ecx, (%rax)\n"
	"	movq $-1, %rax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size vfork,.-vfork\n");
#elif defined(__aarch64__)
/* clone(CLONE_VM | CLONE_VFORK | SIGCHLD, 0): the return address is in x30 and stays there. */
__asm__(".text\n.globl vfork\n.type vfork,%function\n"
	"vfork:\n"
	"	.cfi_startproc\n"
	"	hint #34\n"
	"	adrp x9, :gottprel:self_thread\n"
	"	ldr x9, [x9, :gottprel_lo12:self_thread]\n"
	"	mrs x10, tpidr_el0\n"
	"	ldr w11, [x9, x10]\n"
	"	add w11, w11, #1\n"
	"	str w11, [x9, x10]\n"
	"	mov x0, #0x4111\n"
	"	mov x1, xzr\n"
	"	mov x8, #220\n"
	"	svc #0\n"
	"	cbz x0, 1f\n"
	"	ldr w11, [x9, x10]\n"
	"	sub w11, w11, #1\n"
	"	str w11, [x9, x10]\n"
	"	cmn x0, #4095\n"
	"	b.hs 2f\n"
	"1:	ret\n"
	"2:	stp x29, x30, [sp, #-32]!\n"
	"	.cfi_def_cfa_offset 32\n	.cfi_offset 29, -32\n	.cfi_offset 30, -24\n"
	"	neg w0, w0\n"
	"	str w0, [sp, #16]\n"
	"	bl __errno_location\n"
	"	ldr w1, [sp, #16]\n"
	"	str w1, [x0]\n"
	"	mov x0, #-1\n"
	"	ldp x29, x30, [sp], #32\n"
	"	.cfi_restore 29\n	.cfi_restore 30\n	.cfi_def_cfa_offset 0\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size vfork,.-vfork\n");
#endif
