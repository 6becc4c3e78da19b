/* Transparent huge pages. */
#include <errno.h>
#include <string.h>

#include "agent/sys/cleanup.h"
#include "agent/tune/steps/step.h"

#define FOLDER "/sys/kernel/mm/transparent_hugepage"

/* The word in brackets of "always [madvise] never". */
static int read_chosen(struct sys *s, const struct op *op, char **ret)
{
	_cleanup_free_ char *text = NULL;
	int r = sys_read_line(s, &text, "%s", op->key);
	if (r)
		return r;
	const char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
	if (!close)
		return -EINVAL;
	*ret = strndup(open + 1, close - open - 1);
	return *ret ? 0 : -ENOMEM;
}

static bool offers(const char *text, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = text; (at = strstr(at, word)); at += n)
		if ((at == text || strchr(" [", at[-1])) && (!at[n] || strchr(" ]", at[n])))
			return true;
	return false;
}

static int plan_file(struct sys *s, const struct facts *f, const struct resolved_set *set, const struct resolved *v,
		     struct plan *p)
{
	const char *name = step_key_tail(v)[0] ? step_key_tail(v) : strrchr(v->key, '.') + 1;
	_cleanup_free_ char *key = step_text(FOLDER "/%s", name),
			    *target = step_text("transparent huge pages: %s", name);
	_cleanup_free_ char *current = NULL, *offered = NULL;
	struct op *op;
	if (!key || !target)
		return -ENOMEM;
	int seen = read_chosen(s, &(struct op){.key = key}, &current);
	int r = step_add(p,
			 &(struct op_spec){
			     .step = &step_thp,
			     .value = v,
			     .name = name,
			     .target = target,
			     .key = key,
			     .current = current,
			     .desired = v->value,
			 },
			 &op);
	if (r)
		return r;
	if (seen)
		return step_status(op, seen == -EACCES ? OP_DENIED : OP_UNSUPPORTED, "%s%s: %s", sys_root(s), key,
				   strerror(-seen));
	r = sys_read_line(s, &offered, "%s", key);
	if (!r && !offers(offered, v->value))
		return step_status(op, OP_UNSUPPORTED, "%s%s: this kernel offers \"%s\", not %s", sys_root(s), key,
				   offered, v->value);
	if (step_tuned_owns(f, set))
		return step_status(op, OP_SKIPPED, "tuned sets it, by the profile that hasten makes for it");
	return 0;
}

static int plan(struct sys *s, const struct facts *f, const struct resolved_set *r, struct plan *p, struct error *e)
{
	step_each(v, r, &step_thp) {
		int err = plan_file(s, f, r, v, p);
		if (err)
			return error_set(e, err, "%s could not be planned: %s", v->key, strerror(-err));
	}
	return 0;
}

const struct step step_thp = {
    .name = "thp",
    .title = "Transparent huge pages",
    .life = LIFE_BOOT,
    .under = "/sys",
    .plan = plan,
    .read = read_chosen,
    .write = step_attr_write,
};
