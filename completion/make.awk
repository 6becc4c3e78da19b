# Puts the rows COMMAND(name, function, "help") of the first file into the template that is the second.
FNR == NR {
	if (match($0, /^COMMAND\([a-z]+, *[a-z_]+, *"/)) {
		row = substr($0, RSTART + 8)
		name = row
		sub(/,.*/, "", name)
		help = row
		sub(/^[^"]*"/, "", help)
		sub(/"\)[ \t]*$/, "", help)
		words = words (words == "" ? "" : " ") name
		zsh_help = help
		gsub(/'/, "'\\''", zsh_help)
		gsub(/:/, "\\:", zsh_help)
		zsh = zsh (zsh == "" ? "" : "\n") "\t\t'" name ":" zsh_help "'"
		fish_help = help
		gsub(/'/, "\\'", fish_help)
		fish = fish (fish == "" ? "" : "\n") "complete -c hasten -n __fish_use_subcommand -a " name " -d '" fish_help "'"
	}
	next
}
{
	if ($0 == "@COMMANDS_ZSH@") print zsh
	else if ($0 == "@COMMANDS_FISH@") print fish
	else {
		gsub(/@COMMANDS@/, words)
		print
	}
}
