# Completion for shells, from templates and the command table (agent/cli/commands.def).
bashcompletiondir = $(datadir)/bash-completion/completions
nodist_bashcompletion_DATA = completion/hasten
zshcompletiondir = $(datadir)/zsh/site-functions
nodist_zshcompletion_DATA = completion/_hasten
fishcompletiondir = $(datadir)/fish/vendor_completions.d
nodist_fishcompletion_DATA = completion/hasten.fish
EXTRA_DIST += completion/hasten.bash.in completion/_hasten.in completion/hasten.fish.in completion/make.awk
CLEANFILES += completion/hasten completion/_hasten completion/hasten.fish

completion_inputs = agent/cli/commands.def completion/make.awk
make_completion = $(MKDIR_P) completion && \
	$(AWK) -f $(srcdir)/completion/make.awk $(srcdir)/agent/cli/commands.def $$template >$@.tmp && mv $@.tmp $@
completion/hasten: completion/hasten.bash.in $(completion_inputs)
	$(AM_V_GEN)template=$(srcdir)/completion/hasten.bash.in; $(make_completion)
completion/_hasten: completion/_hasten.in $(completion_inputs)
	$(AM_V_GEN)template=$(srcdir)/completion/_hasten.in; $(make_completion)
completion/hasten.fish: completion/hasten.fish.in $(completion_inputs)
	$(AM_V_GEN)template=$(srcdir)/completion/hasten.fish.in; $(make_completion)
