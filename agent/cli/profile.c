/* hasten profile: which workload profiles there are, what each would set on this machine and why, and whether they are
 * right. */
#include "config.h"

#include "agent/profile/profile.h"

#include "agent/cli/cli.h"
#include "agent/cli/json.h"
#include "agent/cli/target.h"
#include "agent/detect/facts.h"
#include "agent/sys/cleanup.h"
#include "agent/sys/error.h"
#include "agent/sys/sys.h"

#include <errno.h>
#include <string.h>

#define COMMAND_NAME "hasten profile"

static void usage(FILE *to)
{
	fputs("Usage: hasten profile list|recommend [OPTION...]\n"
	      "       hasten profile show NAME [OPTION...]\n"
	      "       hasten profile check [FILE...] [OPTION...]\n\n"
	      "  list             every profile, its file, and whether it is recommended here\n"
	      "  recommend        those that suit this machine, and why\n"
	      "  show NAME        the values that it has on this machine, each with its reason and source\n"
	      "  check [FILE...]  is what stands in the files right? without FILE: all installed profiles and "
	      "drop-ins\n\n"
	      "  -n, --nic IF     show: only this interface of the NICs\n"
	      "      --names      list: the names alone\n" TARGET_HELP "  -h, --help       this text\n\n"
	      "Exit status: 0, 1 where a profile is wrong or the machine cannot be looked at, 64 wrong usage.\n",
	      to);
}

struct run {
	struct target target;
	const char *nic;
	bool names_only;
	struct sys *sys;
	struct facts facts;
	bool has_facts;
	struct json json;
	bool failed;
};

static int look(struct run *r)
{
	struct error e = {0};
	int err = facts_gather(r->sys, &r->facts, &e);

	r->has_facts = !err;
	return err ? target_failed(COMMAND_NAME, &e, err) : 0;
}

static void print_line(const char *before, const char *text)
{
	_cleanup_free_ char *plain = target_plain(text);

	printf("%s%s\n", before, plain ? plain : "");
}

static void json_text(struct json *j, const char *key, const char *text)
{
	if (text)
		json_string(j, key, text);
	else
		json_null(j, key);
}

static void json_strings(struct json *j, const char *key, char *const *list)
{
	json_array_begin(j, key);
	for (; *list; list++)
		json_string(j, NULL, *list);
	json_end(j);
}

static void begin_document(struct run *r, const char *id)
{
	r->json = (struct json){.to = stdout};
	json_object_begin(&r->json, NULL);
	json_string(&r->json, "id", id);
	json_u64(&r->json, "schema_version", 1);
}

/* Loads a profile for list and recommend; a fault is printed, and the others go on. */
static bool load(struct run *r, const char *name, struct profile *ret, const char **ret_why)
{
	struct error e = {0};
	int err = profile_load(r->sys, name, ret, &e);

	if (!err) {
		err = profile_recommended(r->sys, ret, &r->facts, ret_why, &e);
		if (err)
			profile_free(ret);
	}
	if (!err)
		return true;
	r->failed = true;
	target_failed(COMMAND_NAME, &e, err);
	return false;
}

/* ---- list, recommend ---- */

static void print_row(struct run *r, const struct profile *p, const char *why, bool recommended_only, int width)
{
	if (r->target.json) {
		struct json *j = &r->json;

		json_object_begin(j, NULL);
		json_string(j, "name", p->name);
		json_string(j, "summary", p->summary);
		json_string(j, "file", p->file);
		json_strings(j, "include", p->include);
		json_bool(j, "boot", p->consent_boot);
		json_bool(j, "recommended", why != NULL);
		json_text(j, "why", why);
		json_end(j);
		return;
	}
	if (recommended_only)
		printf("%-*s  %s\n", width, p->name, why);
	else
		printf("%-*s  %-3s  %s\n%*s       %s\n", width, p->name, why ? "yes" : "-", p->summary, width, "",
		       p->file);
}

/* For completion: the files are not read, nor the machine. */
static int list_names(struct run *r)
{
	char **names;
	int err = profile_names(r->sys, &names);

	if (err)
		return target_failed(COMMAND_NAME, &(struct error){0}, err);
	for (char **n = names; *n; n++)
		puts(*n);
	sys_list_free(names);
	return 0;
}

static int list(struct run *r, bool recommended_only)
{
	char **names;
	int err = look(r), width = 4;
	bool any = false;

	if (err)
		return err;
	err = profile_names(r->sys, &names);
	if (err)
		return target_failed(COMMAND_NAME, &(struct error){0}, err);
	for (char **n = names; *n; n++)
		width = (int)strlen(*n) > width ? (int)strlen(*n) : width;
	if (r->target.json) {
		begin_document(r, recommended_only ? "hasten.profile.recommend" : "hasten.profile.list");
		json_array_begin(&r->json, "profiles");
	} else if (!recommended_only) {
		printf("%-*s  here\n", width, "name");
	}
	for (char **n = names; *n; n++) {
		struct profile p;
		const char *why;

		if (!load(r, *n, &p, &why))
			continue;
		if (why || !recommended_only) {
			print_row(r, &p, why, recommended_only, width);
			any = true;
		}
		profile_free(&p);
	}
	sys_list_free(names);
	if (r->target.json) {
		json_end(&r->json);
		json_end(&r->json);
	} else if (!any && !r->failed) {
		puts(recommended_only ? "none suits this machine better than what it has" : "there are no profiles");
	}
	return r->failed;
}

/* ---- show ---- */

/* The name that a user knows a target by: the interface, where the NIC has one. */
static const char *called(const struct facts *f, const char *target)
{
	for (size_t i = 0; target && i < f->n_nic; i++) {
		_cleanup_free_ char *identity = nic_identity_text(&f->nic[i].id);

		if (identity && !strcmp(identity, target) && f->nic[i].name)
			return f->nic[i].name;
	}
	return target;
}

static const char *const modes[] = {
    [SETTING_EXACT] = "value", [SETTING_AT_LEAST] = "at-least", [SETTING_AT_MOST] = "at-most"};
static const char *const mode_words[] = {
    [SETTING_EXACT] = "", [SETTING_AT_LEAST] = "at least ", [SETTING_AT_MOST] = "at most "};

static void show_json(struct run *r, const struct profile *p, const char *why, const struct resolved_set *set)
{
	struct json *j = &r->json;

	begin_document(r, "hasten.profile.show");
	json_string(j, "name", p->name);
	json_string(j, "summary", p->summary);
	json_string(j, "file", p->file);
	json_strings(j, "include", p->include);
	json_bool(j, "boot", p->consent_boot);
	json_bool(j, "recommended", why != NULL);
	json_text(j, "recommended_why", why);
	json_array_begin(j, "values");
	for (size_t i = 0; i < set->n_value; i++) {
		const struct resolved *v = &set->value[i];

		json_object_begin(j, NULL);
		json_string(j, "key", v->key);
		json_text(j, "target", v->target);
		json_text(j, "name", called(&r->facts, v->target));
		json_string(j, "mode", modes[v->mode]);
		json_string(j, "value", v->value);
		json_string(j, "step", v->field->step);
		json_string(j, "why", v->why);
		json_string(j, "source", v->source);
		json_string(j, "profile", v->profile);
		json_string(j, "file", v->file);
		json_u64(j, "line", v->line);
		json_end(j);
	}
	json_end(j);
	json_array_begin(j, "skipped");
	for (size_t i = 0; i < set->n_skipped; i++) {
		json_object_begin(j, NULL);
		json_string(j, "key", set->skipped[i].key);
		json_text(j, "target", set->skipped[i].target);
		json_text(j, "name", called(&r->facts, set->skipped[i].target));
		json_string(j, "why", set->skipped[i].why);
		json_end(j);
	}
	json_end(j);
	json_end(j);
}

static void print_key(const char *key, const char *target, const struct facts *f)
{
	_cleanup_free_ char *plain = target ? target_plain(called(f, target)) : NULL;

	printf("  %s%s%s%s", key, plain ? " [" : "", plain ? plain : "", plain ? "]" : "");
}

static void show_text(struct run *r, const struct profile *p, const char *why, const struct resolved_set *set)
{
	printf("%s: %s\n", p->name, p->summary);
	print_line("file: ", p->file);
	for (char **i = p->include; *i; i++)
		printf("%s%s%s", i == p->include ? "include: " : ", ", *i, i[1] ? "" : "\n");
	if (p->consent_boot)
		puts("boot: it may ask for boot arguments, which need a reboot");
	if (why)
		print_line("recommended here: ", why);
	if (set->n_value)
		puts("\nHere it sets");
	for (size_t i = 0; i < set->n_value; i++) {
		const struct resolved *v = &set->value[i];

		print_key(v->key, v->target, &r->facts);
		printf(" = %s", mode_words[v->mode]);
		print_line("", *v->value ? v->value : "(none)");
		print_line("      ", v->why);
		print_line("      source: ", v->source);
		if (strcmp(v->profile, p->name))
			printf("      from: %s (%s:%u)\n", v->profile, v->file, v->line);
	}
	if (set->n_skipped)
		puts("\nNot here");
	for (size_t i = 0; i < set->n_skipped; i++) {
		print_key(set->skipped[i].key, set->skipped[i].target, &r->facts);
		print_line(": ", set->skipped[i].why);
	}
}

static int show(struct run *r, const char *name)
{
	const char *const names[] = {name, NULL};
	struct resolved_set set = {0};
	struct profile p = {0};
	struct error e = {0};
	const char *why = NULL;
	int err = look(r);

	if (err)
		return err;
	err = profile_load(r->sys, name, &p, &e);
	if (!err)
		err = profile_recommended(r->sys, &p, &r->facts, &why, &e);
	if (!err)
		err = profile_resolve(r->sys, names, &r->facts, r->nic, &set, &e);
	if (!err && r->target.json)
		show_json(r, &p, why, &set);
	else if (!err)
		show_text(r, &p, why, &set);
	resolved_set_free(&set);
	profile_free(&p);
	return err ? target_failed(COMMAND_NAME, &e, err) : 0;
}

/* ---- check ---- */

static void print_checked(struct run *r, const char *what, const struct profile *p, struct error *e, int err)
{
	_cleanup_free_ char *text = err ? error_text(e, err) : NULL;

	r->failed |= err != 0;
	if (r->target.json) {
		struct json *j = &r->json;

		json_object_begin(j, NULL);
		json_string(j, "checked", what);
		json_bool(j, "ok", !err);
		json_text(j, "file", err ? e->file : p->file);
		if (err && e->line)
			json_u64(j, "line", e->line);
		else
			json_null(j, "line");
		json_text(j, "message", err ? (e->message ? e->message : text) : NULL);
		json_end(j);
	} else if (err) {
		target_failed(COMMAND_NAME, e, err);
	} else {
		printf("%s: in order, %zu settings\n", what, p->n_setting);
	}
	error_clear(e);
}

/* Files by themselves; installed ones with their drop-ins, worked out for this machine too. */
static int check(struct run *r, char **files)
{
	char **names = NULL;
	bool installed = !*files;
	int err = 0;

	if (installed) {
		err = look(r);
		if (err)
			return err;
		err = profile_names(r->sys, &names);
		if (err)
			return target_failed(COMMAND_NAME, &(struct error){0}, err);
		files = names;
	}
	if (r->target.json) {
		begin_document(r, "hasten.profile.check");
		json_array_begin(&r->json, "checked");
	}
	for (; *files; files++) {
		const char *const one[] = {*files, NULL};
		struct resolved_set set = {0};
		struct profile p = {0};
		struct error e = {0};

		err = installed ? profile_load(r->sys, *files, &p, &e) : profile_load_file(r->sys, *files, &p, &e);
		if (!err && installed)
			err = profile_resolve(r->sys, one, &r->facts, NULL, &set, &e);
		print_checked(r, *files, &p, &e, err);
		resolved_set_free(&set);
		profile_free(&p);
	}
	if (r->target.json) {
		json_end(&r->json);
		json_end(&r->json);
	}
	sys_list_free(names);
	return r->failed;
}

/* ---- the command ---- */

static int wrong(const char *text, const char *what)
{
	fprintf(stderr, COMMAND_NAME ": %s%s%s; \"" COMMAND_NAME " --help\" says more\n", what ? what : "",
		what ? ": " : "", text);
	return EXIT_USAGE;
}

static int dispatch(struct run *r, int n, char **words)
{
	const char *verb = words[0];

	if (!strcmp(verb, "list") || !strcmp(verb, "recommend"))
		return n > 1           ? wrong("takes no argument", words[1])
		       : r->names_only ? list_names(r)
				       : list(r, *verb == 'r');
	if (!strcmp(verb, "check"))
		return check(r, words + 1);
	return n != 2 ? wrong("show takes the name of one profile", NULL) : show(r, words[1]);
}

int cmd_profile(int argc, char **argv)
{
	static const struct option longs[] = {TARGET_LONGS,
					      {"nic", required_argument, NULL, 'n'},
					      {"names", no_argument, NULL, 'N'},
					      {"help", no_argument, NULL, 'h'},
					      {0}};
	static const char *const verbs[] = {"list", "recommend", "show", "check"};
	struct run r = {0};
	size_t known = 0;
	int opt, err;

	while ((opt = getopt_long(argc, argv, TARGET_SHORTS "n:h", longs, NULL)) != -1)
		switch (opt) {
			TARGET_CASES(&r.target)
		case 'n':
			r.nic = optarg;
			break;
		case 'N':
			r.names_only = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			return target_misused(COMMAND_NAME, NULL);
		}
	if (optind == argc)
		return wrong("list, recommend, show or check is wanted", NULL);
	while (known < sizeof(verbs) / sizeof(verbs[0]) && strcmp(verbs[known], argv[optind]))
		known++;
	if (known == sizeof(verbs) / sizeof(verbs[0]))
		return wrong("is none of list, recommend, show, check", argv[optind]);
	if (r.nic && strcmp(argv[optind], "show"))
		return wrong("is for show only", "--nic");
	if (r.names_only && (strcmp(argv[optind], "list") || r.target.json))
		return wrong("is for list without --json only", "--names");
	err = target_open(&r.target, COMMAND_NAME, &r.sys);
	if (err)
		return err;
	err = dispatch(&r, argc - optind, argv + optind);
	if (r.has_facts)
		facts_free(&r.facts);
	sys_close(r.sys);
	return err;
}
